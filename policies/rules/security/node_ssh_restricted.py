"""EKS node groups do not open SSH to every network."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import NODE_GROUP


@resource_rule(
    "node-ssh-restricted",
    group="security",
    title="EKS node groups do not open SSH to every network",
    why="For a node group with an SSH key and no source security group, EKS creates a security group that "
    "opens port 22 to the internet and appears in no program.",
    fix="Remove `remoteAccess` and use Session Manager, or set `sourceSecurityGroupIds`.",
    severity="high",
    framework=fsbp("EC2.19"),
    types=(NODE_GROUP,),
    passes=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"remoteAccess": {"ec2SshKey": "ops", "sourceSecurityGroupIds": ["sg-1"]}},
            },
        )
    ),
    fails=Example(({"type": NODE_GROUP, "props": {"remoteAccess": {"ec2SshKey": "ops"}}},)),
)
def node_ssh_restricted(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each node group with remote access."""
    if resource.get("remoteAccess.ec2SshKey") is None:
        return
    access, sources = (resource.get(each) for each in ("remoteAccess", "remoteAccess.sourceSecurityGroupIds"))
    if is_unknown(access) or sources is None or sources == []:
        yield Violation(
            f"remoteAccess.sourceSecurityGroupIds is {resource.show('remoteAccess.sourceSecurityGroupIds')}, "
            "and EKS then opens port 22 to every network",
            "list the groups that may connect, or remove remoteAccess",
            prop="remoteAccess.sourceSecurityGroupIds",
            unknown=is_unknown(access),
        )
