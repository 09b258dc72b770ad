"""The Kubernetes API is reachable from its own network, and from listed networks of the internet at most."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._networks import Network, network, world
from gpufleet.policies.rules.security._properties import ignored, is_off, is_on, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import CLUSTER

ACCESS = "vpcConfig.endpointPublicAccess"
CIDRS = "vpcConfig.publicAccessCidrs"


class EksEndpointPrivateSettings(Settings):
    """Whether the endpoint may be public."""

    restricted_public: bool = Field(
        True, description="Whether a public endpoint is allowed for listed networks"
    )


@resource_rule(
    "eks-endpoint-private",
    group="security",
    title="The Kubernetes API is private, or restricted to listed networks",
    why="A client that reaches the API server can try stolen tokens and new vulnerabilities. By default EKS "
    "makes the endpoint public and open to every network.",
    fix="Set `vpcConfig.endpointPublicAccess: false` and `endpointPrivateAccess: true`, or list the "
    "networks in `publicAccessCidrs` (fleet file: kubernetes.public_cidrs).",
    severity="critical",
    framework=fsbp("EKS.1"),
    types=(CLUSTER,),
    settings=EksEndpointPrivateSettings,
    passes=Example(
        (
            {
                "type": CLUSTER,
                "props": {"vpcConfig": {"endpointPublicAccess": False, "endpointPrivateAccess": True}},
            },
        )
    ),
    fails=Example(
        (
            {
                "type": CLUSTER,
                "props": {
                    "vpcConfig": {
                        "endpointPublicAccess": True,
                        "endpointPrivateAccess": True,
                        "publicAccessCidrs": ["0.0.0.0/1", "128.0.0.0/1"],
                    }
                },
            },
        )
    ),
)
def eks_endpoint_private(
    resource: Resource, context: RuleContext[EksEndpointPrivateSettings]
) -> Iterator[Violation]:
    """Check each cluster. An endpoint without settings is public."""
    yield from require(
        resource,
        "vpcConfig.endpointPrivateAccess",
        is_on,
        "nodes must reach the API from inside the network",
        "set it to true",
    )
    access = resource.get(ACCESS)
    if is_off(access):
        if resource.ignores(ACCESS):
            yield ignored(resource, ACCESS, "the endpoint must stay private")
        return
    if not is_on(access) or not context.settings.restricted_public:
        yield Violation(
            f"{ACCESS} is {resource.show(ACCESS)}, and the endpoint must be private",
            "set it to false",
            prop=ACCESS,
            unknown=is_unknown(access),
        )
        return
    yield from _restricted(resource)


def _restricted(resource: Resource) -> Iterator[Violation]:
    named: list[Network] = []
    for path, cidr in resource.items(CIDRS):
        block = network(cidr) if isinstance(cidr, str) else None
        if block is None:
            yield Violation(
                f"{path} is {resource.show(path)}, and the allowed networks must be known",
                "write a CIDR block",
                prop=path,
                unknown=is_unknown(cidr),
            )
        else:
            named.append(block)
    if resource.get(CIDRS) is None or resource.get(CIDRS) == []:
        yield Violation(
            f"{CIDRS} is {resource.show(CIDRS)}, which EKS takes as 0.0.0.0/0",
            "list the networks that may reach the endpoint, or set endpointPublicAccess to false",
            prop=CIDRS,
        )
    widest = world(named)
    if widest is not None:
        yield Violation(
            f"{CIDRS} is {resource.show(CIDRS)}, which together open it to the internet ({widest})",
            "list the networks that may reach the endpoint, or set endpointPublicAccess to false",
            prop=CIDRS,
        )
    if resource.ignores(CIDRS):
        yield ignored(resource, CIDRS, "only listed networks may reach the endpoint")
