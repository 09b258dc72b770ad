"""Shared parts of the EC2 extensions: ids, tags, filters and paging as in EC2."""

from __future__ import annotations

import fnmatch
import secrets
from typing import TYPE_CHECKING, Any

from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, EC2_RESOURCE_TO_PREFIX

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Filters = list[dict[str, Any]]
Describe = dict[str, "Callable[[Any], object]"]


# moto's CreateTags rejects ids with an unknown prefix.
for _resource_type, _prefix in (("placement-group", "pg"), ("capacity-reservation", "cr")):
    EC2_RESOURCE_TO_PREFIX.setdefault(_resource_type, _prefix)
    EC2_PREFIX_TO_RESOURCE.setdefault(_prefix, _resource_type)


def ec2_backend(call: Call) -> Any:
    """moto's EC2 backend of the caller's account and region."""
    from moto.ec2.models import ec2_backends

    return ec2_backends[call.account][call.region]


def new_id(prefix: str) -> str:
    """An id in EC2's form, as `cr-0123456789abcdef0`."""
    return f"{prefix}-{secrets.token_hex(9)[:17]}"


def tags_from(call: Call, resource_type: str) -> dict[str, str]:
    """Return a create request's tags for `resource_type`; EC2 rejects tags of other types."""
    found: dict[str, str] = {}
    for specification in call.params.get("TagSpecifications") or []:
        if specification.get("ResourceType") != resource_type:
            given = specification.get("ResourceType")
            message = f"'{given}' is not a valid taggable resource type for this operation."
            raise AwsError("InvalidParameterValue", message)
        found |= {tag["Key"]: tag.get("Value", "") for tag in specification.get("Tags") or []}
    return found


def set_tags(call: Call, resource_id: str, tags: Mapping[str, str]) -> None:
    """Store tags for CreateTags, DeleteTags and DescribeTags."""
    if tags:
        ec2_backend(call).create_tags([resource_id], dict(tags))


def tag_list(call: Call, resource_id: str) -> list[dict[str, str]]:
    """The tags of a resource as EC2 answers them, in order of their keys."""
    tags = ec2_backend(call).tags.get(resource_id, {})
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def forget_tags(call: Call, resource_id: str) -> None:
    """Delete the tags of a deleted resource."""
    ec2_backend(call).tags.pop(resource_id, None)


def matches(call: Call, resource_id: str, item: Params, filters: Filters, fields: Mapping[str, str]) -> bool:
    """Return whether an item of an answer matches the request's filters.

    `fields` maps EC2's filter names to keys of `item`; tag filters need no entry. An unknown
    filter is an error, as in EC2.
    """
    tags = {tag["Key"]: tag["Value"] for tag in tag_list(call, resource_id)}
    for one in filters:
        name, wanted = one["Name"], [str(value) for value in one.get("Values") or []]
        if name.startswith("tag:"):
            values = [tags[name[4:]]] if name[4:] in tags else []
        elif name == "tag-key":
            values = list(tags)
        elif name in fields:
            values = [_text(item.get(fields[name]))]
        else:
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not any(fnmatch.fnmatchcase(value, pattern) for value in values for pattern in wanted):
            return False
    return True


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def page(call: Call, items: Iterable[Any], default: int = 1000) -> tuple[list[Any], str | None]:
    """One page of `items` by MaxResults and NextToken, and the token of the next page."""
    every = list(items)
    start = int(call.params.get("NextToken") or 0)
    size = int(call.params.get("MaxResults") or default)
    following = start + size
    return every[start:following], str(following) if following < len(every) else None
