"""Python modules that all processes of a run import: the engine imports them once for all."""

from __future__ import annotations

_SERVICES = (
    *("autoscaling", "budgets", "cloudwatch", "ec2", "eks", "fsx"),
    *("costexplorer", "iam", "kms", "lambda_", "ram", "s3", "sns", "sqs", "ssm", "vpc"),
)
_GROUPS = ("apps", "core", "meta", "networking", "policy", "rbac", "scheduling")

ACCOUNT: tuple[str, ...] = (
    *("pydantic.main", "pydantic.root_model", "boto3", "botocore.client"),
    "pulumi.provider.experimental.server",
)
"""For the server of a throwaway account, which hosts providers. Programs import all of it as well."""

LIBRARIES: tuple[str, ...] = (
    *("pydantic.main", "pydantic.root_model", "ruamel.yaml", "pulumi.policy"),
    *(f"pulumi_aws.{service}" for service in _SERVICES),
    *(f"pulumi_kubernetes.{group}.v1" for group in _GROUPS),
    *("boto3", "botocore.client", "pulumi.provider.experimental.server", "pulumi.dynamic.dynamic"),
)
"""No module of gpufleet: for programs that may belong to another checkout."""

_DYNAMIC = "pulumi.dynamic.dynamic"

PROVIDERS: tuple[str, ...] = (
    *("gpufleet.lab.aws.provider.server", "gpufleet.lab.kubernetes.provider"),
    _DYNAMIC,
)
"""For the sandbox's providers."""

THROWAWAY_PROVIDERS: tuple[str, ...] = (
    *("gpufleet.lab.aws.hosted_provider", "gpufleet.lab.kubernetes.provider"),
    _DYNAMIC,
)
"""For those of a throwaway account."""

PROGRAMS: tuple[str, ...] = (
    *("gpufleet.checks", "gpufleet.plan", "gpufleet.policy.server", "gpufleet.stacks.cloud_site"),
    *LIBRARIES,
)
"""For programs of the checkout that gpufleet itself is imported from."""
