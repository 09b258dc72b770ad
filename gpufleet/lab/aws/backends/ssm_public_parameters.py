"""Public SSM parameters with AMI ids: those of EKS, Deep Learning AMIs, Bottlerocket and Ubuntu.

moto has those of Amazon Linux and ECS. The ids are fictitious and stable (the same name always has the same
id), and each is an image that DescribeImages returns and an instance can start from. Name patterns: EKS user
guide ("Retrieve recommended Amazon Linux AMI IDs"), Deep Learning AMI
release notes, Bottlerocket and Ubuntu documentation.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from typing import Any

from gpufleet.lab.aws.backends.operation import Call, Passthrough, operation

_EKS = re.compile(
    r"/aws/service/eks/optimized-ami/1\.\d\d/"
    r"(?:amazon-linux-2023/(?P<arch>x86_64|arm64)/(?:standard|nvidia|neuron)|amazon-linux-2(?:-arm64|-gpu)?)"
    r"/(?P<release>recommended|amazon-eks-[a-z0-9_.-]+)(?P<field>/image_id|/image_name|/release_version)?"
)
_PATTERNS = (
    _EKS,
    re.compile(
        r"/aws/service/deeplearning/ami/(?P<arch>x86_64|arm64)/[a-z0-9.-]+/(?P<release>latest)/ami-id"
    ),
    re.compile(
        r"/aws/service/bottlerocket/aws-k8s-1\.\d\d(?:-nvidia|-fips)*/(?P<arch>x86_64|arm64)"
        r"/(?P<release>latest|[0-9.]+)/image_id"
    ),
    re.compile(
        r"/aws/service/canonical/ubuntu/(?:server|eks|eks-pro)/[a-z0-9.]+(?:/1\.\d\d)?/stable/(?P<release>current)"
        r"/(?P<arch>amd64|arm64)/hvm/ebs-gp[23]/ami-id"
    ),
)
_CREATED = dt.datetime(2026, 1, 1)
_AMAZON = "amazon"
_OWNER = "602401143452"
"""The account that owns EKS's images in most regions (EKS user guide)."""


@operation("ssm", "GetParameter")
def get_parameter(call: Call) -> Passthrough:
    """One parameter."""
    _seed(call, call.params["Name"])
    return call.original()


@operation("ssm", "GetParameters")
def get_parameters(call: Call) -> Passthrough:
    """Several parameters."""
    for name in call.params["Names"]:
        _seed(call, name)
    return call.original()


def image_id(region: str, name: str) -> str:
    """Return the fictitious AMI of the public parameter `name` in `region`."""
    return f"ami-{hashlib.sha256(f'{region} {name}'.encode()).hexdigest()[:17]}"


def eks_image(call: Call, version: str, ami_type: str, release: str) -> str:
    """Return EKS's image for nodes of `ami_type` (such as AL2023_x86_64_NVIDIA) at a release
    (1.35.6-20260714): that of the public parameter with the name of the release."""
    kind = ami_type.rpartition("_")[2].lower()
    arch = "arm64" if "ARM_64" in ami_type else "x86_64"
    variant = kind if kind in ("nvidia", "neuron") else "standard"
    name = f"amazon-eks-node-al2023-{arch}-{variant}-{version}-v{release.rpartition('-')[2]}"
    base = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{arch}/{variant}/{name}"
    return str(_register(call, base, arch).id)


def _seed(call: Call, name: str) -> None:
    match = next((m for m in (pattern.fullmatch(name) for pattern in _PATTERNS) if m), None)
    if match is None:
        return
    from moto.ssm.models import Parameter, ssm_backends

    parameters = ssm_backends[call.account][call.region]._parameters
    if name in parameters:
        return
    field = match.groupdict().get("field")
    base = name.removesuffix(field) if field else name
    image = _register(call, base, match.groupdict().get("arch"))
    parameters[name].append(
        Parameter(
            account_id=call.account,
            name=name,
            value=_value(match, image),
            parameter_type="String",
            description=None,
            allowed_pattern=None,
            keyid=None,
            last_modified_date=_CREATED,
            version=1,
            data_type="aws:ec2:image" if image.id == _value(match, image) else "text",
        )
    )


def _value(match: re.Match[str], image: Any) -> str:
    if match.re is not _EKS:
        return str(image.id)
    version = match.string.split("/")[5]
    release = {"release_version": f"{version}.0-20260101", "image_id": image.id, "image_name": image.name}
    field = match.group("field")
    if field:
        return str(release[field[1:]])
    return json.dumps({"schema_version": "2", **release})


def _register(call: Call, base: str, arch: str | None) -> Any:
    from moto.ec2.models import ec2_backends

    return register_image(
        ec2_backends[call.account][call.region],
        base,
        name=f"fictitious-{base.removeprefix('/aws/service/').replace('/', '-')}",
        owner=_OWNER,
        arch="arm64" if arch == "arm64" else "x86_64",
        root_device="/dev/xvda" if "ubuntu" not in base else "/dev/sda1",
    )


def register_image(backend: Any, base: str, *, name: str, owner: str, arch: str, root_device: str) -> Any:
    """Return the image of the public name `base`, added to moto's EC2 `backend` the first time."""
    from moto.ec2.models.amis import Ami

    ami_id = image_id(backend.region_name, base)
    if ami_id not in backend.amis:
        backend.amis[ami_id] = Ami(
            backend,
            ami_id,
            name=name,
            description=f"Fictitious image of the sandbox, for {base}",
            owner_id=owner,
            owner_alias=_AMAZON,
            public=True,
            virtualization_type="hvm",
            architecture=arch,
            creation_date=_CREATED,
            image_location=f"{_AMAZON}/{ami_id}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=root_device,
            region_name=backend.region_name,
        )
    return backend.amis[ami_id]
