"""Databases, notebooks, functions and other services have no public endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpufleet.policies.rules.security._flags import named
from gpufleet.policies.rules.security._properties import ignored, is_off, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown

DATABASE = "aws:rds/instance:Instance"
FLAGS = frozenset(
    {
        "publiclyAccessible",
        "publicConnectivity",
        "assignPublicIp",
        "createPublicIp",
        "enableDefaultInternetAccess",
    }
)
"""Flags of pulumi_aws' types that give a service a public address. Unset, each is false."""

RULE = "a service must be reachable only from its network"


def _is(expected: str) -> Callable[[object], bool]:
    return lambda value: value == expected


def _is_set(value: object) -> bool:
    return isinstance(value, dict) and bool(value.get("subnetIds"))


NEEDED: dict[str, tuple[str, Callable[[object], bool], str]] = {
    "aws:lambda/functionUrl:FunctionUrl": ("authorizationType", _is("AWS_IAM"), "set it to AWS_IAM"),
    "aws:sagemaker/notebookInstance:NotebookInstance": (
        "directInternetAccess",
        _is("Disabled"),
        "set it to Disabled, with a subnet",
    ),
    "aws:sagemaker/domain:Domain": ("appNetworkAccessType", _is("VpcOnly"), "set it to VpcOnly"),
    "aws:opensearch/domain:Domain": ("vpcOptions", _is_set, "set the subnets of the domain"),
    "aws:elasticsearch/domain:Domain": ("vpcOptions", _is_set, "set the subnets of the domain"),
    "aws:transfer/server:Server": ("endpointType", _is("VPC"), "set it to VPC, with subnets"),
    "aws:apprunner/service:Service": (
        "networkConfiguration.ingressConfiguration.isPubliclyAccessible",
        is_off,
        "set it to false",
    ),
    "aws:msk/cluster:Cluster": (
        "brokerNodeGroupInfo.connectivityInfo.publicAccess.type",
        lambda value: value in (None, "DISABLED"),
        "set it to DISABLED",
    ),
}
"""Types that are public unless a property says otherwise: path, accepted values, remedy."""


PUBLIC = ("aws:lightsail/instance:Instance", "aws:lightsail/containerService:ContainerService")
"""Types that always have a public address."""


@resource_rule(
    "no-public-services",
    group="security",
    title="Services have no public endpoint",
    why="A database, notebook or function with a public endpoint is protected only by its passwords and "
    "policies. The rule judges every type of pulumi_aws by the names of its properties, also those that a "
    "program of your own adds.",
    fix="Leave `publiclyAccessible`, `assignPublicIp` and the like false; place the service in a network.",
    severity="high",
    types=(),
    passes=Example(({"type": DATABASE, "props": {"publiclyAccessible": False}},)),
    fails=Example(({"type": DATABASE, "props": {"publiclyAccessible": True}},)),
)
def no_public_services(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check flags at any depth, and the types that are public by default."""
    if not resource.type.startswith("aws:"):
        return
    for path, value in named(resource, FLAGS):
        if not is_off(value):
            yield Violation(
                f"{path} is {resource.show(path)}, and {RULE}",
                "set it to false",
                urn=resource.urn,
                prop=path,
                unknown=is_unknown(value),
            )
        elif resource.ignores(path):
            yield ignored(resource, path, RULE)
    if resource.type in PUBLIC:
        yield Violation(
            f"type is {resource.type}, which always has a public address, and {RULE}",
            "use an instance or a container in a private subnet",
            urn=resource.urn,
        )
    if resource.type in NEEDED:
        path, accepts, remedy = NEEDED[resource.type]
        yield from require(resource, path, accepts, RULE, remedy)
