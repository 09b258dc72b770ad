"""Names in the program that protect money, data, access, or the ability to train.

`make mutate` weakens each place where one of these is written. Other names are wiring,
identity, size or text: `make mutate ARGS=--all` weakens those too.
"""

from __future__ import annotations

PROTECTIVE: dict[str, frozenset[str]] = {
    "metadata service": frozenset(
        {"metadata_options", "http_endpoint", "http_tokens", "http_put_response_hop_limit"}
    ),
    "encryption": frozenset(
        {
            "apply_server_side_encryption_by_default",
            "encrypted",
            "encryption_config",
            "key_arn",
            "kms_key_id",
            "kms_master_key_id",
            "sse_algorithm",
            "aws.s3.BucketServerSideEncryptionConfiguration",
            "enable_key_rotation",
            "deletion_window_in_days",
        }
    ),
    "private networks": frozenset(
        {
            "associate_public_ip_address",
            "map_public_ip_on_launch",
            "endpoint_private_access",
            "endpoint_public_access",
            "public_access_cidrs",
            "public_cidrs",
            "cidr_ipv4",
            "ip_protocol",
            "from_port",
            "to_port",
            "referenced_security_group_id",
            "public",
            "public_ip",
            "security_groups",
            "security_group_ids",
            "LUSTRE_PORTS",
            "_among_members",
            "efa_security_group_id",
            "aws.ec2.DefaultSecurityGroup",
            "aws.vpc.SecurityGroupIngressRule",
            "aws.vpc.SecurityGroupEgressRule",
        }
    ),
    "private buckets": frozenset(
        {
            "block_public_acls",
            "block_public_policy",
            "ignore_public_acls",
            "restrict_public_buckets",
            "object_ownership",
            "aws.s3.BucketPolicy",
            "aws.s3.BucketOwnershipControls",
            "aws:SecureTransport",
            "Bool",
        }
    ),
    "who may do what": frozenset(
        {
            "Action",
            "Resource",
            "Principal",
            "Condition",
            "Effect",
            "StringEquals",
            "StringLike",
            "ArnEquals",
            "kms:CallerAccount",
            "aws:PrincipalArn",
            "aws:SourceAccount",
            "kms:EncryptionContext:aws:logs:arn",
            "assume_role_policy",
            "authentication_mode",
            "access_config",
            "managed_policies",
        }
    ),
    "pods": frozenset({"pod-security.kubernetes.io/enforce"}),
    "what is recorded": frozenset(
        {
            "enabled_cluster_log_types",
            "aws.ec2.FlowLog",
            "traffic_type",
            "retention_in_days",
            "log_retention_days",
        }
    ),
    "data that stays": frozenset(
        {
            "protect",
            "deletion_protection",
            "force_destroy",
            "versioning",
            "versioning_configuration",
            "status",
            "aws.s3.BucketVersioning",
            "automatic_backup_retention_days",
            "backup_days",
            "copy_tags_to_backups",
            "skip_final_backup",
            "final_backup",
            "retain_on_delete",
            "delete_data_in_filesystem",
            "ignore_changes",
        }
    ),
    "tags": frozenset(
        {"tags", "tag_specifications", "TAGGED_AT_LAUNCH", "resource_type", "propagate_at_launch"}
    ),
    "capacity that is paid for": frozenset(
        {
            "placement",
            "placement_group",
            "placement_group_name",
            "placement_group_arn",
            "strategy",
            "capacity_block",
            "capacity_type",
            "market_type",
            "instance_market_options",
            "instance_match_criteria",
            "capacity_reservation_specification",
            "capacity_reservation_target",
            "capacity_reservation_id",
            "max_upfront_usd",
            "on_demand_base_capacity",
            "on_demand_percentage_above_base_capacity",
            "delete_before_replace",
            "update_strategy",
            "end_date_type",
        }
    ),
    "interfaces": frozenset(
        {
            "network_interfaces",
            "interface_type",
            "interfaces",
            "network_card_index",
            "device_index",
            "efa_enabled",
        }
    ),
    "budget": frozenset(
        {
            "limit_amount",
            "limit_unit",
            "time_unit",
            "notifications",
            "threshold",
            "threshold_type",
            "comparison_operator",
            "thresholds",
            "subscriber_sns_topic_arns",
            "filter_expression",
            "aws.sns.TopicSubscription",
        }
    ),
    "support": frozenset({"support_type", "upgrade_policy"}),
}

NAMES = frozenset().union(*PROTECTIVE.values())
