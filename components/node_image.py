"""The image that nodes start from: an AMI id, one of AWS's images by its exact name, or an SSM parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from gpufleet.catalog import load_catalog
from gpufleet.catalog.images import image_architecture
from gpufleet.components.base import Component
from gpufleet.errors import InputError


@dataclass(frozen=True, kw_only=True)
class NodeImageArgs:
    """Set exactly one. `ami_id` is an AMI id. `name` is the exact name of an AMI of Amazon, whose id differs
    by region and never changes. `parameter` is an SSM parameter with an AMI id: name one release (AWS's
    public parameters) or one version (`/golden/gpu:7`), since the nodes follow its value.
    """

    ami_id: pulumi.Input[str] | None = None
    name: str | None = None
    parameter: str | None = None


def check_image(owner: str, image: NodeImageArgs) -> None:
    """Raise InputError unless `image` says exactly one thing; `owner` is the group that it is for."""
    given = [each for each in (image.ami_id, image.name, image.parameter) if each is not None]
    if len(given) != 1:
        raise InputError(
            f"{owner}: the image needs exactly one of ami_id, name and parameter, and has {len(given)}",
            remedy="set name to the exact name of one of AWS's AMIs, or ami_id to an image of your own",
        )


def check_architecture(
    owner: str, instance_types: Sequence[str], ami_type: str | None, image: NodeImageArgs | None
) -> None:
    """Raise InputError if the image is for other processors than an instance type, if both are known."""
    has = None
    if image is None and ami_type is not None and ami_type != "CUSTOM":
        has = "arm64" if "_ARM_64" in ami_type else "x86_64"
    elif image is not None and image.parameter is not None:
        has = image_architecture(image.parameter)
    known = load_catalog().instances
    for name in instance_types:
        if has is not None and name in known and has not in known[name].architectures:
            raise InputError(
                f"{owner}: {name} is {'/'.join(known[name].architectures)}, and its image is for {has}",
                remedy="choose an image, or an ami_type, for these processors",
            )


def image_id(component: Component, image: NodeImageArgs) -> pulumi.Input[str]:
    """Return the AMI id of the image in the component's region."""
    if image.ami_id is not None:
        return image.ami_id
    look_up = pulumi.InvokeOutputOptions(parent=component)
    if image.name is not None:
        found = aws.ec2.get_ami_output(
            owners=["amazon"],
            filters=[aws.ec2.GetAmiFilterArgs(name="name", values=[image.name])],
            # A deprecated image still starts nodes, and is found by its name only with this.
            include_deprecated=True,
            opts=look_up,
        )
        named: pulumi.Output[str] = found.id
        return named
    parameter = aws.ssm.get_parameter_output(name=image.parameter or "", opts=look_up)
    # AMI ids are not secret, but SSM parameters are treated as secret.
    return pulumi.Output.unsecret(parameter.value)
