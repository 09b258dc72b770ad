"""Launch templates. Every change creates a new version; the template itself stays."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.provider.handler import AutoName, Aws, Handler, without
from gpufleet.lab.aws.provider.mapper import Names, from_response, tag_list, tags_to_map, to_request
from gpufleet.lab.aws.provider.resources.ec2 import find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_OF_THE_TEMPLATE = ("name", "namePrefix", "description", "updateDefaultVersion", "defaultVersion")

_NO_NEW_VERSION = frozenset({"tags", "updateDefaultVersion", "defaultVersion"})


def _addresses(key: str) -> Any:
    return lambda values: [{key: value} for value in values]


def _plain(key: str) -> Any:
    return lambda values: [value[key] for value in values]


_NAMES = Names(
    rename={
        "vpcSecurityGroupIds": "SecurityGroupIds",
        "securityGroupNames": "SecurityGroups",
        "networkInterfaces.securityGroups": "Groups",
        "networkInterfaces.ipv4Addresses": "PrivateIpAddresses",
        "networkInterfaces.ipv4AddressCount": "SecondaryPrivateIpAddressCount",
        "instanceRequirements.memoryMib": "MemoryMiB",
        "instanceRequirements.memoryGibPerVcpu": "MemoryGiBPerVCpu",
        "ramDiskId": "RamDiskId",
    },
    encode={
        "networkInterfaces.ipv6Addresses": _addresses("Ipv6Address"),
        "networkInterfaces.ipv4Prefixes": _addresses("Ipv4Prefix"),
        "networkInterfaces.ipv6Prefixes": _addresses("Ipv6Prefix"),
        "networkInterfaces.ipv4Addresses": lambda values: [
            {"PrivateIpAddress": value, "Primary": index == 0} for index, value in enumerate(values)
        ],
        "tagSpecifications.tags": tag_list,
    },
    decode={
        "networkInterfaces.ipv6Addresses": _plain("Ipv6Address"),
        "networkInterfaces.ipv4Prefixes": _plain("Ipv4Prefix"),
        "networkInterfaces.ipv6Prefixes": _plain("Ipv6Prefix"),
        "networkInterfaces.ipv4Addresses": _plain("PrivateIpAddress"),
        "tagSpecifications.tags": tags_to_map,
    },
)


class LaunchTemplate(Handler):
    """aws.ec2.LaunchTemplate."""

    pulumi_type = "aws:ec2/launchTemplate:LaunchTemplate"
    force_new = frozenset({"name", "namePrefix"})
    computed = frozenset({"defaultVersion", "metadataOptions"})
    sets = frozenset({"tagSpecifications", "licenseSpecifications"})
    ordered = frozenset({"networkInterfaces.ipv4Addresses"})
    auto_name = AutoName(max_length=128)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that security groups are on the template or on its interfaces, not both."""
        if inputs.get("vpcSecurityGroupIds") and inputs.get("networkInterfaces"):
            return [
                Problem(
                    "vpcSecurityGroupIds",
                    "a launch template with networkInterfaces has its groups there: "
                    "move them to networkInterfaces[].securityGroups",
                )
            ]
        if inputs.get("updateDefaultVersion") and inputs.get("defaultVersion") is not None:
            return [Problem("defaultVersion", "set one of defaultVersion and updateDefaultVersion")]
        return []

    def unsettled(self, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Changed data creates a version whose number only AWS knows."""
        if not changed - _NO_NEW_VERSION:
            return frozenset({"defaultVersion"}) if "updateDefaultVersion" in changed else frozenset()
        return frozenset({"latestVersion"}) | (
            frozenset({"defaultVersion"}) if new.get("updateDefaultVersion") else frozenset()
        )

    @staticmethod
    def data(aws: Aws, inputs: Props) -> dict[str, Any]:
        """Return the LaunchTemplateData parameter."""
        shape = aws.client("ec2").meta.service_model.shape_for("RequestLaunchTemplateData")
        return to_request(shape, without(inputs, *_OF_THE_TEMPLATE), _NAMES)

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the template with its first version."""
        described = {"VersionDescription": inputs["description"]} if inputs.get("description") else {}
        made = aws.client("ec2").create_launch_template(
            LaunchTemplateName=inputs["name"],
            LaunchTemplateData=self.data(aws, inputs),
            **described,
            **tag_spec("launch-template", inputs),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(aws.client("ec2").describe_launch_templates, "LaunchTemplates", LaunchTemplateIds=[rid])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the template and the data of its latest version."""
        found = self._find(aws, rid)
        if found is None:
            return None
        latest = int(found["LatestVersionNumber"])
        version = find(
            aws.client("ec2").describe_launch_template_versions,
            "LaunchTemplateVersions",
            LaunchTemplateId=rid,
            Versions=[str(latest)],
        )
        data = (version or {}).get("LaunchTemplateData") or {}
        declared = self.schema.outputs
        kinds = {
            key: kind for key, kind in declared.items() if key not in ("tags", "tagsAll", *_OF_THE_TEMPLATE)
        }
        out: Props = dict.fromkeys(
            key for key in kinds if key in self.schema.inputs.properties and key != "region"
        )
        out |= from_response(kinds, data, _NAMES)
        return out | {
            "arn": aws.arn("ec2", f"launch-template/{rid}"),
            "name": found["LaunchTemplateName"],
            "description": (version or {}).get("VersionDescription"),
            "latestVersion": latest,
            "defaultVersion": int(found["DefaultVersionNumber"]),
            "tags": tags_to_map(found.get("Tags")),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Create a version for changed data; make it the default if the program requests it."""
        ec2 = aws.client("ec2")
        latest = int(old.get("latestVersion", 1))
        if changed - _NO_NEW_VERSION:
            described = {"VersionDescription": new["description"]} if new.get("description") else {}
            made = ec2.create_launch_template_version(
                LaunchTemplateId=rid, LaunchTemplateData=self.data(aws, new), **described
            )
            latest = int(made["LaunchTemplateVersion"]["VersionNumber"])
        wanted = latest if new.get("updateDefaultVersion") else new.get("defaultVersion")
        if wanted is not None and int(wanted) != old.get("defaultVersion"):
            ec2.modify_launch_template(LaunchTemplateId=rid, DefaultVersion=str(wanted))
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the template with all its versions."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_launch_template(LaunchTemplateId=rid), lambda: self._find(aws, rid), rid)


HANDLERS = (LaunchTemplate(),)
