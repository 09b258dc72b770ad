"""AWS Resource Access Manager: shares, and the resources and principals in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.wire import Props


def _find(aws: Aws, arn: str) -> Props | None:
    ram = aws.client("ram")
    try:
        found = ram.get_resource_shares(resourceOwner="SELF", resourceShareArns=[arn])["resourceShares"]
    except ram.exceptions.UnknownResourceException:
        return None
    live = [each for each in found if each["status"] not in ("DELETED", "DELETING")]
    return live[0] if live else None


def _tags(tags: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in tags.items()]


class ResourceShare(Handler):
    """aws.ram.ResourceShare. Its id is its ARN."""

    pulumi_type = "aws:ram/resourceShare:ResourceShare"
    force_new = frozenset({"permissionArns"})
    computed = frozenset({"permissionArns", "resourceShareConfiguration"})
    defaults: ClassVar[Defaults] = {"allowExternalPrincipals": False}
    auto_name = AutoName()

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the share without resources and principals."""
        made = aws.client("ram").create_resource_share(
            name=inputs["name"],
            allowExternalPrincipals=bool(inputs.get("allowExternalPrincipals")),
            tags=_tags(inputs.get("tags") or {}),
        )
        return str(made["resourceShare"]["resourceShareArn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The share."""
        found = _find(aws, rid)
        if found is None:
            return None
        return {
            "arn": rid,
            "name": found["name"],
            "allowExternalPrincipals": found["allowExternalPrincipals"],
            "tags": {each["key"]: each["value"] for each in found.get("tags") or ()},
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change its name, its principals' limit and its tags."""
        ram = aws.client("ram")
        if changed & {"name", "allowExternalPrincipals"}:
            ram.update_resource_share(
                resourceShareArn=rid,
                name=new["name"],
                allowExternalPrincipals=bool(new.get("allowExternalPrincipals")),
            )
        retag(ram, {"resourceShareArn": rid}, old, new, tags="tags", keys="tagKeys", form=_tags)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the share."""
        if _find(aws, rid) is not None:
            aws.client("ram").delete_resource_share(resourceShareArn=rid)


class _Association(Handler):
    """A member of a share. Its id is `<share>,<member>`."""

    prop: ClassVar[str]
    parameter: ClassVar[str]
    kind: ClassVar[str]
    takes_default_tags = False

    def create(self, aws: Aws, inputs: Props) -> str:
        """Add the member."""
        share, member = str(inputs["resourceShareArn"]), str(inputs[self.prop])
        aws.client("ram").associate_resource_share(resourceShareArn=share, **{self.parameter: [member]})
        return f"{share},{member}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The member, or None if the share or the member in it is gone."""
        share, _, member = rid.partition(",")
        if _find(aws, share) is None:
            return None
        found: list[Any] = aws.client("ram").get_resource_share_associations(
            associationType=self.kind, resourceShareArns=[share]
        )["resourceShareAssociations"]
        if not any(each["associatedEntity"] == member for each in found):
            return None
        return {"resourceShareArn": share, self.prop: member}

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the member, unless it or its share is gone."""
        if self.read(aws, rid, state) is None:
            return
        share, _, member = rid.partition(",")
        aws.client("ram").disassociate_resource_share(resourceShareArn=share, **{self.parameter: [member]})


class ResourceAssociation(_Association):
    """aws.ram.ResourceAssociation."""

    pulumi_type = "aws:ram/resourceAssociation:ResourceAssociation"
    force_new = frozenset({"resourceArn", "resourceShareArn"})
    prop, parameter, kind = "resourceArn", "resourceArns", "RESOURCE"


class PrincipalAssociation(_Association):
    """aws.ram.PrincipalAssociation."""

    pulumi_type = "aws:ram/principalAssociation:PrincipalAssociation"
    force_new = frozenset({"principal", "resourceShareArn"})
    prop, parameter, kind = "principal", "principals", "PRINCIPAL"


HANDLERS = (ResourceShare(), ResourceAssociation(), PrincipalAssociation())
