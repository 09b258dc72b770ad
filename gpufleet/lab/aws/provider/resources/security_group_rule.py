"""Security group rules as resources: one source per rule (aws.vpc), and the older kind with several."""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.handler import Aws, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list, to_request
from gpufleet.lab.aws.provider.resources.ec2 import find, retag
from gpufleet.lab.aws.provider.resources.security_group import find_group, permission, rules_of
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_SOURCES = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")


class _SingleRule(Handler):
    """A rule with one source and its own id."""

    direction: ClassVar[str]
    force_new = frozenset({"securityGroupId"})
    # AWS rejects a second rule with the same source and ports.
    delete_before_replace = True

    def check(self, inputs: Props) -> list[Problem]:
        """Check that there is one source, and ports if the protocol has them."""
        found = []
        if len([key for key in _SOURCES if inputs.get(key)]) != 1:
            found.append(
                Problem("cidrIpv4", f"a rule has exactly one source: set one of {', '.join(_SOURCES)}")
            )
        protocol = str(inputs.get("ipProtocol"))
        if protocol in {"tcp", "udp"}:
            found += [
                Problem(key, f"{key!r} is required with protocol {protocol}")
                for key in ("fromPort", "toPort")
                if inputs.get(key) is None
            ]
        return found

    def _rule(self, inputs: Props) -> Props:
        return {
            "protocol": inputs["ipProtocol"],
            "fromPort": inputs.get("fromPort", -1),
            "toPort": inputs.get("toPort", -1),
            "description": inputs.get("description"),
            "cidrBlocks": [inputs["cidrIpv4"]] if inputs.get("cidrIpv4") else [],
            "ipv6CidrBlocks": [inputs["cidrIpv6"]] if inputs.get("cidrIpv6") else [],
            "prefixListIds": [inputs["prefixListId"]] if inputs.get("prefixListId") else [],
            "securityGroups": [inputs["referencedSecurityGroupId"]]
            if inputs.get("referencedSecurityGroupId")
            else [],
        }

    def create(self, aws: Aws, inputs: Props) -> str:
        """Authorize the rule."""
        group = str(inputs["securityGroupId"])
        call = getattr(aws.client("ec2"), f"authorize_security_group_{self.direction}")
        tags = inputs.get("tags") or {}
        specs = [{"ResourceType": "security-group-rule", "Tags": tag_list(tags)}] if tags else []
        extra: dict[str, Any] = {"TagSpecifications": specs} if specs else {}
        made = call(GroupId=group, IpPermissions=[permission(self._rule(inputs), group)], **extra)
        rule = made["SecurityGroupRules"][0]
        rid = str(rule["SecurityGroupRuleId"])
        aws.made[rid] = rule
        return rid

    def _find(self, aws: Aws, rid: str) -> Props | None:
        found = aws.made.pop(rid, None) or find(
            aws.client("ec2").describe_security_group_rules, "SecurityGroupRules", SecurityGroupRuleIds=[rid]
        )
        return found if found and found.get("SecurityGroupRuleId") == rid else None

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the rule by its id."""
        found = self._find(aws, rid)
        if found is None:
            return None
        out = self.decode(found, Names(rename={"securityGroupId": "GroupId", "arn": "SecurityGroupRuleArn"}))
        referenced = (found.get("ReferencedGroupInfo") or {}).get("GroupId")
        out["referencedSecurityGroupId"] = referenced
        for key in ("cidrIpv4", "cidrIpv6", "prefixListId"):
            out.setdefault(key, None)
        if not referenced:  # moto drops the description of a rule whose source is a group
            out.setdefault("description", None)
        if found.get("IpProtocol") == "-1":
            out |= {key: state.get(key) for key in ("fromPort", "toPort")}
        out["tags"] = out.get("tags", {})
        out.setdefault("arn", aws.arn("ec2", f"security-group-rule/{rid}"))
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change source, ports and description in place."""
        if changed - {"tags"}:
            rule = only(new, "ipProtocol", "fromPort", "toPort", "description", *_SOURCES)
            rule |= {key: -1 for key in ("fromPort", "toPort") if key not in rule}
            names = Names(rename={"referencedSecurityGroupId": "ReferencedGroupId"})
            ec2 = aws.client("ec2")
            shape = ec2.meta.service_model.shape_for("SecurityGroupRuleRequest")
            request = {"SecurityGroupRuleId": rid, "SecurityGroupRule": to_request(shape, rule, names)}
            ec2.modify_security_group_rules(GroupId=new["securityGroupId"], SecurityGroupRules=[request])
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Revoke the rule."""
        if self._find(aws, rid) is None:
            return
        call = getattr(aws.client("ec2"), f"revoke_security_group_{self.direction}")
        call(GroupId=state["securityGroupId"], SecurityGroupRuleIds=[rid])


class SecurityGroupIngressRule(_SingleRule):
    """aws.vpc.SecurityGroupIngressRule."""

    pulumi_type = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    direction = "ingress"


class SecurityGroupEgressRule(_SingleRule):
    """aws.vpc.SecurityGroupEgressRule."""

    pulumi_type = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    direction = "egress"


class SecurityGroupRule(Handler):
    """aws.ec2.SecurityGroupRule: ports and any number of sources of one kind."""

    pulumi_type = "aws:ec2/securityGroupRule:SecurityGroupRule"
    force_new = frozenset({
        "cidrBlocks", "fromPort", "ipv6CidrBlocks", "prefixListIds", "protocol", "securityGroupId", "self",
        "sourceSecurityGroupId", "toPort", "type",
    })  # fmt: skip
    computed = frozenset({"sourceSecurityGroupId"})
    ordered = frozenset({"cidrBlocks", "ipv6CidrBlocks", "prefixListIds"})
    delete_before_replace = True

    def check(self, inputs: Props) -> list[Problem]:
        """Check that there are a direction and a source."""
        found = []
        if inputs.get("type") not in {"ingress", "egress"} and "-" not in str(inputs.get("type")):
            found.append(Problem("type", f"{inputs.get('type')!r} is not a direction: set ingress or egress"))
        sources = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "self", "sourceSecurityGroupId")
        if not any(inputs.get(key) for key in sources):
            found.append(Problem("cidrBlocks", f"a rule needs a source: set one of {', '.join(sources)}"))
        return found

    @staticmethod
    def _permission(inputs: Props) -> dict[str, Any]:
        source = inputs.get("sourceSecurityGroupId")
        own = bool(inputs.get("self"))
        groups = [source] if source and not (own and source == inputs["securityGroupId"]) else []
        return permission({**inputs, "securityGroups": groups}, str(inputs["securityGroupId"]))

    def create(self, aws: Aws, inputs: Props) -> str:
        """Authorize the rule; its id is derived from its content, like the real provider's."""
        call = getattr(aws.client("ec2"), f"authorize_security_group_{inputs['type']}")
        call(GroupId=inputs["securityGroupId"], IpPermissions=[self._permission(inputs)])
        text = f"{inputs['securityGroupId']}|{inputs['type']}|{sorted(self._permission(inputs).items())}"
        return f"sgrule-{zlib.crc32(text.encode())}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the rule if every source of it still exists."""
        group = find_group(aws, str(state["securityGroupId"]))
        if group is None:
            return None
        member = "IpPermissions" if state["type"] == "ingress" else "IpPermissionsEgress"
        wanted = rules_of([self._permission(state)], str(state["securityGroupId"]))
        present = rules_of(group.get(member) or (), str(state["securityGroupId"]))
        if not all(any(_within(rule, other) for other in present) for rule in wanted):
            return None
        return only(
            state, "cidrBlocks", "description", "fromPort", "ipv6CidrBlocks", "prefixListIds", "protocol",
            "securityGroupId", "self", "sourceSecurityGroupId", "toPort", "type",
        )  # fmt: skip

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the description, the only change in place."""
        call = getattr(aws.client("ec2"), f"update_security_group_rule_descriptions_{new['type']}")
        call(GroupId=new["securityGroupId"], IpPermissions=[self._permission(new)])

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Revoke the rule."""
        call = getattr(aws.client("ec2"), f"revoke_security_group_{state['type']}")
        call(GroupId=state["securityGroupId"], IpPermissions=[self._permission(state)])


def _within(rule: Props, other: Props) -> bool:
    """Return whether every source of a rule is in another one with the same ports and description."""
    fixed = ("protocol", "fromPort", "toPort", "description")
    if any(str(rule[key]) != str(other[key]) for key in fixed) or (rule["self"] and not other["self"]):
        return False
    lists = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds", "securityGroups")
    return all(set(rule[key]) <= set(other[key]) for key in lists)


HANDLERS = (SecurityGroupIngressRule(), SecurityGroupEgressRule(), SecurityGroupRule())
