"""What is paid by use, which no fleet file says, in words."""

LOGS = "logs (CloudWatch), by the GB"
OBJECTS = "objects in S3 buckets, and requests to them"
TOPICS = "messages of SNS topics"
TRAFFIC = "data transfer between zones, between regions and to the internet"
