"""The AWS operations that the sandbox needs and moto lacks, one service or topic per file.

`install()` adds them to moto's response classes, for moto's server and for `mock_aws`; a plain boto3 client
then reaches them. Modules are imported when their service is first used.
"""

from __future__ import annotations

import importlib

from msgspec import Struct

from gpufleet.lab.aws.backends.operation import AwsError, attach

__all__ = ["SERVICES", "AwsError", "install", "install_service"]


class ServiceExtension(Struct, frozen=True):
    """The sandbox's additions to one of moto's services.

    `response_class` is moto's, as module:name; `modules` are files of this package; `paths` are
    URL patterns (moto's notation) that moto's service does not route yet.
    """

    response_class: str
    modules: tuple[str, ...]
    paths: tuple[str, ...] = ()


SERVICES = {
    "ec2": ServiceExtension(
        "moto.ec2.responses:EC2Response",
        (
            "ec2_placement_groups",
            "ec2_capacity_reservations",
            "ec2_capacity_blocks",
            "ec2_block_extensions",
            "ec2_topology",
            "ec2_launch_templates",
            "ec2_images",
            "ec2_instances",
            "ec2_addresses",
            "ec2_fleets",
            "ec2_dependencies",
            "ec2_vpc_endpoints",
            "ec2_vpn_gateways",
            "ec2_vpn_connections",
            "ec2_tags",
        ),
    ),
    "eks": ServiceExtension(
        "moto.eks.responses:EKSResponse",
        (
            "eks_clusters",
            "eks_nodegroups",
            "eks_addons",
            "eks_access",
            "eks_pod_identity",
            "eks_tags",
        ),
        paths=(
            "{0}/clusters/(?P<name>[^/]+)/(?P<rest>.+)$",
            "{0}/addons/(?P<rest>.+)$",
            "{0}/access-policies$",
        ),
    ),
    "fsx": ServiceExtension("moto.fsx.responses:FSxResponse", ("fsx_file_systems", "fsx_associations")),
    "autoscaling": ServiceExtension(
        "moto.autoscaling.responses:AutoScalingResponse",
        ("autoscaling_groups", "autoscaling_refresh", "autoscaling_activities", "autoscaling_reserved"),
    ),
    "kms": ServiceExtension("moto.kms.responses:KmsResponse", ("kms_private_keys", "kms_rotation")),
    "directconnect": ServiceExtension(
        "moto.directconnect.responses:DirectConnectResponse", ("directconnect_gateways",)
    ),
    "logs": ServiceExtension("moto.logs.responses:LogsResponse", ("logs_groups",)),
    "ce": ServiceExtension("moto.ce.responses:CostExplorerResponse", ("ce_anomalies",)),
    "budgets": ServiceExtension("moto.budgets.responses:BudgetsResponse", ("budgets_notifications",)),
    "servicequotas": ServiceExtension(
        "moto.servicequotas.responses:ServiceQuotasResponse", ("service_quotas",)
    ),
    "iam": ServiceExtension(
        "moto.iam.responses:IamResponse", ("iam_managed_policies", "iam_oidc_clients", "iam_simulation")
    ),
    "ram": ServiceExtension(
        "moto.ram.responses:ResourceAccessManagerResponse",
        ("ram_shares",),
        paths=(
            "{0}/associateresourceshare$",
            "{0}/disassociateresourceshare$",
            "{0}/tagresource$",
            "{0}/untagresource$",
        ),
    ),
    "route53resolver": ServiceExtension(
        "moto.route53resolver.responses:Route53ResolverResponse", ("route53resolver_rules",)
    ),
    "resourcegroups": ServiceExtension(
        "moto.resourcegroups.responses:ResourceGroupsResponse",
        ("resource_group_members",),
        paths=("{0}/group-resources$", "{0}/ungroup-resources$", "{0}/list-group-resources$"),
    ),
    "resourcegroupstaggingapi": ServiceExtension(
        "moto.resourcegroupstaggingapi.responses:ResourceGroupsTaggingAPIResponse", ("tagging_resources",)
    ),
    "s3": ServiceExtension("moto.s3.responses:S3Response", ("s3_bucket_policies",)),
    "ssm": ServiceExtension("moto.ssm.responses:SimpleSystemManagerResponse", ("ssm_public_parameters",)),
}
"""By moto's name of the service."""


def install(*services: str) -> None:
    """Extend moto in this process: the given services, or all of them. It can be called repeatedly."""
    for service in services or SERVICES:
        install_service(service)


def install_service(service: str) -> None:
    """Extend one of moto's services; a service without additions stays unchanged."""
    extension = SERVICES.get(service)
    if extension is None:
        return
    for module in extension.modules:
        importlib.import_module(f"{__name__}.{module}")
    module_name, class_name = extension.response_class.split(":")
    response_class = getattr(importlib.import_module(module_name), class_name)
    attach(response_class, service)
    if extension.paths:
        urls = importlib.import_module(module_name.rpartition(".")[0] + ".urls")
        dispatch = next(iter(urls.url_paths.values()))
        for path in extension.paths:
            urls.url_paths.setdefault(path, dispatch)
