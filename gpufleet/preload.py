"""Python modules that all processes of a run import: the engine imports them once for all."""

from __future__ import annotations

_SERVICES = (
    *("autoscaling", "budgets", "cloudwatch", "ec2", "eks", "fsx"),
    *("iam", "kms", "s3", "sns", "ssm", "vpc"),
)
_GROUPS = ("apps", "core", "meta", "networking", "scheduling")

LIBRARIES: tuple[str, ...] = (
    *("pydantic.main", "pydantic.root_model", "ruamel.yaml", "pulumi.policy"),
    *(f"pulumi_aws.{service}" for service in _SERVICES),
    *(f"pulumi_kubernetes.{group}.v1" for group in _GROUPS),
    *("boto3", "botocore.client", "pulumi.provider.experimental.server", "pulumi.dynamic.dynamic"),
)
"""No module of gpufleet: for programs that may belong to another checkout."""

PROVIDERS: tuple[str, ...] = (
    *("gpufleet.lab.aws.provider.server", "gpufleet.lab.kubernetes.provider"),
    "pulumi.dynamic.dynamic",
)
"""For the sandbox's providers."""

PROGRAMS: tuple[str, ...] = (
    *("gpufleet.checks", "gpufleet.plan", "gpufleet.policy.server"),
    *LIBRARIES,
)
"""For programs of the checkout that gpufleet itself is imported from."""
