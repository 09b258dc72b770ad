"""Images by id: moto compares all images of a region with the filter, a thousand, for each new instance."""

from __future__ import annotations

from typing import Any

from moto.ec2.models.amis import AmiBackend

_PATTERN = frozenset("*?[")
_describe = AmiBackend.describe_images


def _describe_images(
    self: AmiBackend,
    ami_ids: list[str] | None = None,
    filters: dict[str, Any] | None = None,
    exec_users: list[str] | None = None,
    owners: list[str] | None = None,
) -> list[Any]:
    wanted = (filters or {}).get("image-id")
    one = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
    only_id = not ami_ids and not exec_users and not owners and len(filters or ()) == 1
    if only_id and isinstance(one, str) and not _PATTERN & set(one):
        return [self.amis[one]] if one in self.amis else []
    found: list[Any] = _describe(self, ami_ids, filters, exec_users, owners)
    return found


AmiBackend.describe_images = _describe_images
