"""A program with pulumi_aws classes over a dozen types, for both engines."""

import json

import pulumi
import pulumi_aws as aws

config = pulumi.Config()
zones = aws.get_availability_zones(state="available")
vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", enable_dns_hostnames=True, tags={"Name": "net"})
subnets = [
    aws.ec2.Subnet(
        f"subnet-{index}",
        vpc_id=vpc.id,
        cidr_block=f"10.0.{index}.0/24",
        availability_zone=zones.names[index],
    )
    for index in range(2)
]
itself = {"protocol": "-1", "from_port": 0, "to_port": 0, "self": True}
group = aws.ec2.SecurityGroup("efa", vpc_id=vpc.id, ingress=[itself], egress=[itself])


def role(name: str, service: str) -> aws.iam.Role:
    trust = aws.iam.get_policy_document(
        statements=[
            {
                "actions": ["sts:AssumeRole"],
                "principals": [{"type": "Service", "identifiers": [service]}],
            }
        ]
    )
    return aws.iam.Role(name, assume_role_policy=trust.json)


control, nodes = role("control", "eks.amazonaws.com"), role("nodes", "ec2.amazonaws.com")
aws.iam.RolePolicyAttachment(
    "control", role=control.name, policy_arn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
)
key = aws.kms.Key("key", deletion_window_in_days=7, enable_key_rotation=True)
cluster = aws.eks.Cluster(
    "cluster",
    role_arn=control.arn,
    vpc_config={
        "subnet_ids": [subnet.id for subnet in subnets],
        "endpoint_private_access": True,
        "endpoint_public_access": False,
    },
    encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
)
template = aws.ec2.LaunchTemplate(
    "template",
    instance_type="p4d.24xlarge",
    user_data=config.get("user-data") or "Zmlyc3Q=",
    update_default_version=True,
    metadata_options={"http_tokens": "required", "http_endpoint": "enabled"},
    network_interfaces=[
        {
            "device_index": 0 if card == 0 else 1,
            "network_card_index": card,
            "interface_type": "efa",
            "security_groups": [group.id],
        }
        for card in range(4)
    ],
)
aws.eks.NodeGroup(
    "workers",
    cluster_name=cluster.name,
    node_role_arn=nodes.arn,
    subnet_ids=[subnets[0].id],
    scaling_config={"min_size": 0, "desired_size": 0, "max_size": 4},
    launch_template={"id": template.id, "version": template.latest_version.apply(str)},
    labels={"gpu": "a100"},
)
bucket = aws.s3.Bucket("data", force_destroy=True)
aws.s3.BucketPublicAccessBlock(
    "data",
    bucket=bucket.id,
    block_public_acls=True,
    block_public_policy=True,
    ignore_public_acls=True,
    restrict_public_buckets=True,
)
topic = aws.sns.Topic("alerts", display_name=pulumi.Output.secret("hush"))
aws.sns.TopicPolicy(
    "alerts",
    arn=topic.arn,
    policy=topic.arn.apply(
        lambda arn: json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Action": "SNS:Publish",
                        "Resource": arn,
                        "Principal": {"Service": "budgets.amazonaws.com"},
                    }
                ],
            }
        )
    ),
)
pulumi.export("endpoint", cluster.endpoint)
pulumi.export("account", aws.get_caller_identity().account_id)
pulumi.export("topic", topic.display_name)
