"""Images: by id, which moto searches slowly; its many images of AWS, when they are searched for; AWS's Deep
Learning images by their exact name; and images of instances, with tags of their snapshots.

moto compares all images of a region with the filter, a thousand, for each new instance, and creates them with
a snapshot and a volume each for each new region. It has no current Deep Learning images: one is added when
it is searched for by its exact name (names: DLAMI developer guide, release notes), with a fictitious id that
is stable for a name and region.
"""

from __future__ import annotations

import re
from typing import Any

from moto.ec2.models.amis import AMIS, Ami, AmiBackend

from gpufleet.lab.aws.backends.operation import AwsError
from gpufleet.lab.aws.backends.ssm_public_parameters import register_image

_PATTERN = frozenset("*?[")
_DEEP_LEARNING = re.compile(
    r"Deep Learning (?P<arm>ARM64 )?Base (?:OSS Nvidia Driver GPU AMI|AMI with Single CUDA|Neuron AMI)"
    r" \(Ubuntu \d\d\.\d\d\) 20\d{6}"
)
_OWNER = "898082745236"
"""The account of AWS's Deep Learning images in most regions."""

_create = AmiBackend.create_image
_describe = AmiBackend.describe_images
_load = AmiBackend._load_amis
_FEW = "_has_few_images"


def _load_few(self: AmiBackend) -> None:
    """Create moto's images with fixed ids only; those of a region when they are searched for."""
    setattr(self, _FEW, True)
    for given in AMIS:
        self.amis[given["ami_id"]] = Ami(self, **{**given, "owner_alias": "amazon"})


def _load_all(backend: AmiBackend) -> None:
    if vars(backend).pop(_FEW, False):
        own = dict(backend.amis)
        _load(backend)
        backend.amis.update(own)


def _describe_images(
    self: AmiBackend,
    ami_ids: list[str] | None = None,
    filters: dict[str, Any] | None = None,
    exec_users: list[str] | None = None,
    owners: list[str] | None = None,
) -> list[Any]:
    added = _add_named(self, (filters or {}).get("name"))
    wanted = (filters or {}).get("image-id")
    one = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
    only_id = not ami_ids and not exec_users and not owners and len(filters or ()) == 1
    by_id = one if only_id and isinstance(one, str) and not _PATTERN & set(one) else None
    ids = {*(ami_ids or ()), *([by_id] if by_id else ())}
    # The others are AWS's own.
    if not added and owners != ["self"] and not (ids and ids <= set(self.amis)):
        _load_all(self)
    if by_id:
        return [self.amis[by_id]] if by_id in self.amis else []
    found: list[Any] = _describe(self, ami_ids, filters, exec_users, owners)
    return found


def _add_named(backend: Any, names: Any) -> bool:
    """Add the Deep Learning images of these names; return whether all of them are such images."""
    found = [(str(name), _DEEP_LEARNING.fullmatch(str(name))) for name in names or ()]
    for name, match in found:
        if match is not None:
            register_image(
                backend,
                name,
                name=name,
                owner=_OWNER,
                arch="arm64" if match["arm"] else "x86_64",
                root_device="/dev/sda1",
            )
    return bool(found) and all(match is not None for _, match in found)


def _create_image(
    self: AmiBackend, instance_id: str, name: str, description: str, tag_specifications: list[dict[str, Any]]
) -> Ami:
    """Refuse a name that is taken (EC2 API Reference, InvalidAMIName.Duplicate), and tag the snapshot too."""
    if any(each.name == name and each.owner_id == self.account_id for each in self.amis.values()):
        raise AwsError("InvalidAMIName.Duplicate", f"AMI name {name} is already in use by another AMI")
    of_snapshot = [each for each in tag_specifications if each["ResourceType"] == "snapshot"]
    others = [each for each in tag_specifications if each not in of_snapshot]
    made = _create(self, instance_id, name, description, others)
    for each in of_snapshot:
        made.ebs_snapshot.add_tags({tag["Key"]: tag["Value"] for tag in each["Tags"]})
    return made


AmiBackend.create_image = _create_image
AmiBackend.describe_images = _describe_images
AmiBackend._load_amis = _load_few
