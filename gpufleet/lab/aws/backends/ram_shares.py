"""Resource shares of AWS RAM with reservations, tags, and changes of what is shared, which moto lacks.

The emulated account is in no organization, and every account counts as one of its own: invitations are
accepted at once, and a share for the organization only takes any account. Sources: RAM API Reference,
AssociateResourceShare; RAM User Guide, "Shareable AWS resources".
"""

from __future__ import annotations

import re
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

_PRINCIPAL = re.compile(
    r"\d{12}|arn:aws[a-z-]*:organizations::\d{12}:(organization/o-\w+|ou/o-\w+/ou-[\w-]+)"
)
_SHAREABLE = re.compile(r"arn:aws[a-z-]*:ec2:[a-z0-9-]+:\d{12}:capacity-reservation/cr-[0-9a-f]+")
"""What the sandbox's programs share."""


@operation("ram", "CreateResourceShare")
def create_resource_share(call: Call) -> Params:
    """Create a share, with its tags."""
    from moto.ram.models import ResourceShare

    given = call.params
    share = ResourceShare(
        call.account,
        call.region,
        name=given["name"],
        allowExternalPrincipals=given.get("allowExternalPrincipals", True),
    )
    _associate(share, given)
    _backend(call).resource_shares.append(share)
    _tags(share).update({each["key"]: each["value"] for each in given.get("tags") or []})
    return {"resourceShare": _answer(share)}


@operation("ram", "GetResourceShares")
def get_resource_shares(call: Call) -> Params:
    """Return own shares, all or by ARN; deleted ones are returned for a while, as in AWS."""
    if call.params["resourceOwner"] != "SELF":
        raise AwsError("InvalidParameterException", "The sandbox has shares of its own account only.")
    wanted, status = call.params.get("resourceShareArns") or [], call.params.get("resourceShareStatus")
    found = [
        each
        for each in _backend(call).resource_shares
        if (not wanted or each.arn in wanted) and status in (None, each.status)
    ]
    if wanted and not found:
        raise _unknown(wanted[0])
    return {"resourceShares": [_answer(each) for each in found]}


@operation("ram", "AssociateResourceShare")
def associate_resource_share(call: Call) -> Params:
    """Add resources and principals to a share."""
    share = _share(call)
    _associate(share, call.params)
    return {"resourceShareAssociations": _associations(share, call.params, "ASSOCIATED")}


@operation("ram", "DisassociateResourceShare")
def disassociate_resource_share(call: Call) -> Params:
    """Remove resources and principals from a share."""
    share = _share(call)
    for key, held in (("principals", share.principals), ("resourceArns", share.resource_arns)):
        for each in call.params.get(key) or []:
            if each not in held:
                raise AwsError("UnknownResourceException", f"{each} is not associated with {share.arn}.")
            held.remove(each)
    share.last_updated_time = utcnow()
    return {"resourceShareAssociations": _associations(share, call.params, "DISASSOCIATED")}


@operation("ram", "UpdateResourceShare")
def update_resource_share(call: Call) -> Params:
    """Change the name, or whether principals outside of the organization are allowed; moto drops the rest."""
    share = _share(call)
    share.name = call.params.get("name") or share.name
    if call.params.get("allowExternalPrincipals") is not None:
        share.allow_external_principals = bool(call.params["allowExternalPrincipals"])
    share.last_updated_time = utcnow()
    return {"resourceShare": _answer(share)}


@operation("ram", "DeleteResourceShare")
def delete_resource_share(call: Call) -> Passthrough:
    """Delete a share with its associations."""
    share = _share(call)
    share.principals.clear()
    share.resource_arns.clear()
    return call.original()


@operation("ram", "TagResource")
def tag_resource(call: Call) -> Params:
    """Add tags to a share."""
    _tags(_share(call)).update({each["key"]: each["value"] for each in call.params["tags"]})
    return {}


@operation("ram", "UntagResource")
def untag_resource(call: Call) -> Params:
    """Remove tags from a share."""
    for key in call.params["tagKeys"]:
        _tags(_share(call)).pop(key, None)
    return {}


def shared_with(account: str, owner: str, region: str) -> set[str]:
    """Return the ARNs that an owner shares with an account in a region."""
    from moto.ram.models import ram_backends

    return {
        arn
        for share in ram_backends[owner][region].resource_shares
        if share.status == "ACTIVE"
        and any(each == account or each.startswith("arn:") for each in share.principals)
        for arn in share.resource_arns
    }


def tagged_shares(call: Call) -> list[tuple[str, dict[str, str]]]:
    """Return the ARNs and tags of the caller's shares."""
    return [
        (each.arn, dict(_tags(each))) for each in _backend(call).resource_shares if each.status == "ACTIVE"
    ]


def _backend(call: Call) -> Any:
    from moto.ram.models import ram_backends

    return ram_backends[call.account][call.region]


def _share(call: Call) -> Any:
    wanted = call.params.get("resourceShareArn") or ""
    for share in _backend(call).resource_shares:
        if share.arn == wanted and share.status == "ACTIVE":
            return share
    raise _unknown(wanted)


def _unknown(arn: str) -> AwsError:
    return AwsError("UnknownResourceException", f"ResourceShare {arn} could not be found.")


def _tags(share: Any) -> dict[str, str]:
    kept: dict[str, str] = vars(share).setdefault("gpufleet_tags", {})
    return kept


def _associate(share: Any, given: Params) -> None:
    for principal in given.get("principals") or []:
        if not _PRINCIPAL.fullmatch(principal):
            message = f"Principal ID {principal} is malformed. Verify the ID and try again."
            raise AwsError("InvalidParameterException", message)
        if principal == share.account_id:
            message = "You cannot share resources with the account that owns them."
            raise AwsError("InvalidParameterException", message)
    for arn in given.get("resourceArns") or []:
        if not _SHAREABLE.fullmatch(arn):
            raise AwsError("MalformedArnException", "You cannot share the selected resource type.")
        if arn.split(":")[4] != share.account_id:
            raise AwsError("OperationNotPermittedException", f"{arn} belongs to another account.")
    for key, held in (("principals", share.principals), ("resourceArns", share.resource_arns)):
        held += [each for each in given.get(key) or [] if each not in held]
    share.last_updated_time = utcnow()


def _answer(share: Any) -> Params:
    described: Params = share.describe()
    return described | {
        "creationTime": share.creation_time,
        "lastUpdatedTime": share.last_updated_time,
        "tags": [{"key": key, "value": value} for key, value in sorted(_tags(share).items())],
    }


def _associations(share: Any, given: Params, status: str) -> list[Params]:
    kinds = (("principals", "PRINCIPAL"), ("resourceArns", "RESOURCE"))
    return [
        {
            "resourceShareArn": share.arn,
            "associatedEntity": each,
            "associationType": kind,
            "status": status,
            "external": False,
        }
        for key, kind in kinds
        for each in given.get(key) or []
    ]
