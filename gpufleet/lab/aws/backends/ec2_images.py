"""Images by id, which moto searches slowly, and AWS's Deep Learning images by their exact name.

moto compares all images of a region with the filter, a thousand, for each new instance. It has no current
Deep Learning images: one is added when it is searched for by its exact name (names: DLAMI developer guide,
release notes), with a fictitious id that is stable for a name and region.
"""

from __future__ import annotations

import re
from typing import Any

from moto.ec2.models.amis import AmiBackend

from gpufleet.lab.aws.backends.ssm_public_parameters import register_image

_PATTERN = frozenset("*?[")
_DEEP_LEARNING = re.compile(
    r"Deep Learning (?P<arm>ARM64 )?Base (?:OSS Nvidia Driver GPU AMI|AMI with Single CUDA|Neuron AMI)"
    r" \(Ubuntu \d\d\.\d\d\) 20\d{6}"
)
_OWNER = "898082745236"
"""The account of AWS's Deep Learning images in most regions."""

_describe = AmiBackend.describe_images


def _describe_images(
    self: AmiBackend,
    ami_ids: list[str] | None = None,
    filters: dict[str, Any] | None = None,
    exec_users: list[str] | None = None,
    owners: list[str] | None = None,
) -> list[Any]:
    _add_named(self, (filters or {}).get("name"))
    wanted = (filters or {}).get("image-id")
    one = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
    only_id = not ami_ids and not exec_users and not owners and len(filters or ()) == 1
    if only_id and isinstance(one, str) and not _PATTERN & set(one):
        return [self.amis[one]] if one in self.amis else []
    found: list[Any] = _describe(self, ami_ids, filters, exec_users, owners)
    return found


def _add_named(backend: Any, names: Any) -> None:
    for name in names if isinstance(names, list) else [names]:
        match = _DEEP_LEARNING.fullmatch(str(name))
        if match is not None:
            register_image(
                backend,
                str(name),
                name=str(name),
                owner=_OWNER,
                arch="arm64" if match["arm"] else "x86_64",
                root_device="/dev/sda1",
            )


AmiBackend.describe_images = _describe_images
