"""An instance that becomes an image: launched where a node group's nodes are, stopped, copied and terminated.

Fields are those of the EC2 API Reference (RunInstances, CreateImage, DescribeLaunchTemplateVersions).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from botocore.exceptions import ClientError, WaiterError
from msgspec import Struct

from gpufleet.account.console_keys import console_keys
from gpufleet.account.reading import error_code
from gpufleet.errors import CloudError, InputError

BUILD_TAG = "gpufleet:image-build"
"""The tag of an instance that becomes an image, with the name of that image."""

BASE_TAG = "gpufleet:image-base"
"""The tag of an image with the id of the one that it was built from."""

ENDS_AFTER_MIN = 120
"""After this time a running instance shuts itself down, which terminates it, if the build was killed."""

TYPES: Mapping[str, str] = {"x86_64": "m7i.large", "arm64": "m7g.large"}
"""The instance types that build, by architecture: packages need no GPU."""

_AWAKE = ("pending", "running", "stopping", "stopped")


class BaseImage(Struct, frozen=True, kw_only=True):
    """The image to build on. `root` is the name of its root device, `size_gib` the size of that."""

    id: str
    name: str
    architecture: str
    root: str
    size_gib: int

    @property
    def label(self) -> str:
        """Its id, with its name if it has one."""
        return f"{self.id} ({self.name})" if self.name else self.id


class LaunchPlace(Struct, frozen=True, kw_only=True):
    """Where nodes of a group are launched: subnet, security groups, instance profile and root volume."""

    subnet: str
    security_groups: tuple[str, ...]
    profile: Mapping[str, str]
    volume: Mapping[str, Any]


class Pauses(Struct, frozen=True, kw_only=True):
    """Seconds between questions to EC2, and the most that an instance or an image may take."""

    between: int = 10
    instance: int = 900
    image: int = 7200


def find_base(session: Any, image: str) -> BaseImage:
    """Return an image by its id, by an SSM parameter that has it (`/...`), or by its exact name at Amazon.

    Raises InputError if the region has none that can be used.
    """
    ec2 = session.client("ec2")
    asked: dict[str, Any] = {
        "Owners": ["amazon"],
        "Filters": [{"Name": "name", "Values": [image]}],
        "IncludeDeprecated": True,
    }
    if image.startswith("/"):
        asked = {"ImageIds": [_parameter(session, image)]}
    elif image.startswith("ami-"):
        asked = {"ImageIds": [image]}
    try:
        found = ec2.describe_images(**asked)["Images"]
    except ClientError as error:
        if not error_code(error).startswith("InvalidAMIID"):
            raise
        found = []
    if len(found) != 1 or found[0].get("State") != "available":
        state = found[0]["State"] if len(found) == 1 else f"{len(found)} images"
        raise InputError(
            f"image {image!r}: {state} in {ec2.meta.region_name}",
            remedy="name an available image of this region with --from: its id, a parameter with it, or the "
            "exact name of one of Amazon's",
        )
    one = found[0]
    root = str(one.get("RootDeviceName", ""))
    disks = [each for each in one.get("BlockDeviceMappings") or () if "Ebs" in each]
    sizes = [each["Ebs"]["VolumeSize"] for each in disks if each["DeviceName"] == root]
    if one.get("Architecture") not in TYPES or not sizes:
        raise InputError(
            f"image {image!r} is for {one.get('Architecture')}, with {len(sizes)} root volumes",
            remedy=f"use one for {' or '.join(TYPES)}, with its root on EBS",
        )
    return BaseImage(
        id=one["ImageId"],
        name=str(one.get("Name", "")),
        architecture=one["Architecture"],
        root=root,
        size_gib=sizes[0],
    )


def place_of(ec2: Any, template: str, version: str, subnet: str) -> LaunchPlace:
    """Return where a launch template puts nodes. Its network cards and instance type are those of GPU nodes,
    and are not taken."""
    found = ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=[version])
    data = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    cards = data.get("NetworkInterfaces") or [{}]
    groups = data.get("SecurityGroupIds") or cards[0].get("Groups") or []
    volumes = [each["Ebs"] for each in data.get("BlockDeviceMappings") or () if "Ebs" in each]
    kept = ("Encrypted", "KmsKeyId", "VolumeType")
    return LaunchPlace(
        subnet=subnet,
        security_groups=tuple(groups),
        profile={key: str(value) for key, value in (data.get("IamInstanceProfile") or {}).items()},
        volume={key: volumes[0][key] for key in kept if key in volumes[0]} if volumes else {},
    )


def builders(ec2: Any, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the instances with `tags` that become an image, or were left when a build was killed."""
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[
            *filters,
            {"Name": "tag-key", "Values": [BUILD_TAG]},
            {"Name": "instance-state-name", "Values": list(_AWAKE)},
        ]
    )
    return [each for page in pages for one in page["Reservations"] for each in one["Instances"]]


@contextmanager
def builder(
    ec2: Any,
    base: BaseImage,
    place: LaunchPlace,
    *,
    instance_type: str,
    key: str,
    name: str,
    tags: Mapping[str, str],
    pauses: Pauses,
) -> Iterator[dict[str, Any]]:
    """Launch an instance of `base` with the public SSH key `key`, and terminate it when the block ends.

    Its tags are `tags` and that of the image `name`. Yields its description. Raises CloudError if it does
    not start.
    """
    cloud_config = {
        "ssh_authorized_keys": [key],
        "runcmd": [["shutdown", "-h", f"+{ENDS_AFTER_MIN}"]],
    }
    own = {"Name": f"{name} (image build)", **tags, BUILD_TAG: name}
    made = ec2.run_instances(
        ImageId=base.id,
        InstanceType=instance_type,
        MinCount=1,
        MaxCount=1,
        SubnetId=place.subnet,
        SecurityGroupIds=list(place.security_groups),
        **({"IamInstanceProfile": dict(place.profile)} if place.profile else {}),
        BlockDeviceMappings=[
            {"DeviceName": base.root, "Ebs": {**place.volume, "VolumeSize": base.size_gib}},
        ],
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        InstanceInitiatedShutdownBehavior="terminate",
        # JSON is YAML.
        UserData=f"#cloud-config\n{json.dumps(cloud_config)}\n",
        TagSpecifications=[_tagged("instance", own), _tagged("volume", own)],
    )["Instances"][0]
    instance = str(made["InstanceId"])
    try:
        _wait(ec2, "instance_running", instance, pauses.between, pauses.instance)
        yield ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    finally:
        ec2.terminate_instances(InstanceIds=[instance])


def host_keys(ec2: Any, instance: str, pauses: Pauses) -> tuple[tuple[str, str], ...]:
    """Return the SSH host keys of an instance once it has printed them, as (kind, key).

    Raises CloudError if it does not print any.
    """
    deadline = time.monotonic() + pauses.instance
    while not (keys := console_keys(ec2, instance)):
        if time.monotonic() > deadline:
            raise CloudError(
                f"{instance} has printed no SSH host keys after {pauses.instance} s",
                remedy="use an image with cloud-init and sshd, and see the instance's console output",
            )
        time.sleep(pauses.between)
    return keys


def make_image(
    ec2: Any, instance: str, name: str, description: str, tags: Mapping[str, str], pauses: Pauses
) -> str:
    """Stop an instance, make the image `name` of it, and return its id once it is available.

    Image and snapshots have `tags`. Raises CloudError if it fails.
    """
    ec2.stop_instances(InstanceIds=[instance])
    _wait(ec2, "instance_stopped", instance, pauses.between, pauses.instance)
    own = {"Name": name, **tags}
    image = str(
        ec2.create_image(
            InstanceId=instance,
            Name=name,
            Description=description,
            TagSpecifications=[_tagged("image", own), _tagged("snapshot", own)],
        )["ImageId"]
    )
    _wait(ec2, "image_available", image, pauses.between, pauses.image)
    return image


def _wait(
    ec2: Any,
    state: Literal["instance_running", "instance_stopped", "image_available"],
    resource: str,
    between_s: int,
    most_s: int,
) -> None:
    key = "ImageIds" if state.startswith("image") else "InstanceIds"
    attempts = most_s // between_s if between_s else most_s
    try:
        ec2.get_waiter(state).wait(
            **{key: [resource]}, WaiterConfig={"Delay": between_s, "MaxAttempts": attempts}
        )
    except WaiterError as error:
        raise CloudError(
            f"{resource} is not {state.partition('_')[2]}: {error}",
            remedy="see its state and its reason in EC2, and run again",
        ) from None


def _parameter(session: Any, name: str) -> str:
    ssm = session.client("ssm")
    try:
        return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        raise InputError(
            f"there is no SSM parameter {name!r} in {ssm.meta.region_name}",
            remedy="name an existing parameter with the id of an image",
        ) from None


def _tagged(kind: str, tags: Mapping[str, str]) -> dict[str, Any]:
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
