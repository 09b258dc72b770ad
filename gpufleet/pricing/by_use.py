"""Texts for usage-based charges, which a fleet file does not declare."""

EVENTS = "custom events on an event bus"
FUNCTIONS = "calls of Lambda functions"
LOGS = "logs (CloudWatch), by the GB"
QUEUES = "requests to SQS queues"
OBJECTS = "objects in S3 buckets, and requests to them"
TOPICS = "messages of SNS topics"
TRAFFIC = "data transfer between zones, between regions and to the internet"
