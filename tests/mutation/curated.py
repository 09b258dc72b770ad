"""Weakenings that a rule must find: `make test` runs these, `make mutate` all of them."""

from __future__ import annotations

CURATED = (
    # the metadata service
    "components.launch_template drop metadata_options of LaunchTemplate in launch_template",
    (
        "components.launch_template http_tokens 'required' -> 'optional' of "
        "LaunchTemplateMetadataOptionsArgs "
        "in launch_template"
    ),
    (
        "components.launch_template http_put_response_hop_limit 1 -> 2 of LaunchTemplateMetadataOptionsArgs "
        "in launch_template"
    ),
    # encryption
    "components.base enable_key_rotation True -> False of Key in encryption_key",
    "components.base deletion_window_in_days 30 -> 7 of Key in encryption_key",
    "components.bucket leave out aws.s3.BucketServerSideEncryptionConfiguration(...) in __init__",
    "components.budget drop kms_master_key_id of Topic in __init__",
    "components.cluster drop encryption_config of Cluster in __init__",
    "components.cluster drop kms_key_id of LogGroup in __init__",
    "components.flow_logs drop kms_key_id of LogGroup in flow_logs",
    (
        "components.launch_template encrypted 'true' -> 'false' of LaunchTemplateBlockDeviceMappingEbsArgs "
        "in _root_volume"
    ),
    "components.storage drop kms_key_id of LustreFileSystem in __init__",
    # networks
    "components.cluster endpoint_public_access reversed of ClusterVpcConfigArgs in __init__",
    "components.cluster endpoint_private_access True -> False of ClusterVpcConfigArgs in __init__",
    "components.cluster cidr_ipv4 opened to 0.0.0.0/0 of SecurityGroupIngressRule in _private_access",
    "components.cluster cidr_ipv4 opened over IPv6 of SecurityGroupIngressRule in _private_access",
    "components.network map_public_ip_on_launch False -> True of Subnet in _subnet",
    "components.node_group_args default public_ip False -> True",
    "components.security_groups a group opened to the world of SecurityGroupIngressRule in _among_members",
    "components.security_groups a group opened to the world of SecurityGroupEgressRule in _among_members",
    "components.security_groups ip_protocol 'tcp' -> '-1' of SecurityGroupEgressRule in node_group_rules",
    "components.security_groups leave out aws.ec2.DefaultSecurityGroup(...) in closed_default_group",
    "components.storage a group opened to the world of SecurityGroupIngressRule in _allow_in",
    # buckets
    "components.bucket block_public_acls True -> False of BucketPublicAccessBlock in __init__",
    "components.bucket block_public_policy True -> False of BucketPublicAccessBlock in __init__",
    "components.bucket ignore_public_acls True -> False of BucketPublicAccessBlock in __init__",
    "components.bucket restrict_public_buckets True -> False of BucketPublicAccessBlock in __init__",
    "components.bucket leave out aws.s3.BucketPolicy(...) in __init__",
    "components.bucket leave out aws.s3.BucketOwnershipControls(...) in __init__",
    # permissions
    "components.base entry 'Principal' widened to * in encryption_key",
    "components.base entry 'Principal' widened to * in assume_role_policy",
    "components.cluster element 'AmazonEKS_CNI_Policy' -> 'AmazonEC2FullAccess' of managed_policies",
    "components.identity entry 'Action' widened to * in bucket_statements",
    # pods
    "components.cluster_base entry 'pod-security.kubernetes.io/enforce' 'baseline' -> 'privileged' in _team",
    "components.cluster_base drop entry 'pod-security.kubernetes.io/enforce' in _team",
    # audit data
    "components.cluster drop enabled_cluster_log_types of Cluster in __init__",
    "components.flow_logs leave out aws.ec2.FlowLog(...) in flow_logs",
    "components.flow_logs drop retention_in_days of LogGroup in flow_logs",
    # retention of data
    "components.bucket force_destroy reversed of Bucket in __init__",
    "components.bucket drop protect of child in __init__",
    "components.cluster drop deletion_protection of Cluster in __init__",
    "components.storage drop protect of child in __init__",
    # tags
    "components.base drop tags of Key in encryption_key",
    "components.bucket drop tags of Bucket in __init__",
    "components.capacity drop tags of CapacityBlockReservation in __init__",
    "components.cluster drop tags of Cluster in __init__",
    "components.launch_template drop tag_specifications of LaunchTemplate in launch_template",
    "components.launch_template drop element 'volume' of TAGGED_AT_LAUNCH",
    "components.network drop tags of Vpc in __init__",
    "components.storage drop tags of LustreFileSystem in __init__",
    # capacity, and requirements for training
    "components.launch_template drop capacity_reservation_specification of LaunchTemplate in launch_template",
    (
        "components.launch_template market_type 'capacity-block' -> 'spot' of "
        "LaunchTemplateInstanceMarketOptionsArgs in launch_template"
    ),
    "components.launch_template network_interfaces without its last of LaunchTemplate in launch_template",
    "components.storage drop security_group_ids of LustreFileSystem in __init__",
    "stacks.node_groups drop element *efa_groups of security_group_ids",
    "stacks.node_args drop interface_type of NodeInterfaceArgs in interface_args",
    "stacks.node_groups interfaces without its last of NodeGroupArgs in build_node_group",
    "stacks.node_args drop network_card_index of NodeInterfaceArgs in interface_args",
)
"""Names of mutants without their lines; every one must exist, and be killed by a rule."""
