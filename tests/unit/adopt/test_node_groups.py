"""Node groups of what exists: those whose instance types AWS does not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpufleet.adopt.document import fleet_document
from gpufleet.checks import validate
from gpufleet.errors import SpecError
from tests.unit.adopt.conftest import Group, adopted, client, remarks_on

WRITE = "write those that it may start as `instance_types` of the group, the preferred one first"
ATTRIBUTES = {"VCpuCount": {"Min": 4}, "MemoryMiB": {"Min": 16384}, "AcceleratorCount": {"Min": 1}}


def policy(template: dict[str, Any], *overrides: dict[str, Any]) -> dict[str, Any]:
    """A mixed instances policy with a launch template of the given data."""
    client("ec2").create_launch_template(LaunchTemplateName="mixed", LaunchTemplateData=template)
    source = {"LaunchTemplateName": "mixed", "Version": "$Latest"}
    return {"LaunchTemplate": {"LaunchTemplateSpecification": source, "Overrides": list(overrides)}}


def the_group() -> tuple[list[str], list[str]]:
    """The instance types of the only group, and the remarks on it."""
    site = adopted()
    (found,) = site.fields["node_groups"]
    return found["instance_types"], remarks_on(site, found["name"])


def test_group_with_a_launch_configuration_has_no_types_and_a_remark(group: Group) -> None:
    client("autoscaling").create_launch_configuration(
        LaunchConfigurationName="lc-2019", ImageId="ami-0123456789abcdef0", InstanceType="g6.xlarge"
    )
    group("old", LaunchConfigurationName="lc-2019")
    types, remarks = the_group()
    assert types == []
    (remark,) = remarks
    assert remark.startswith("its launch configuration lc-2019 is not read: write its instance type")


def test_group_with_instance_requirements_has_no_types_and_a_remark(group: Group) -> None:
    group("any", MixedInstancesPolicy=policy({"KeyName": "operators"}, {"InstanceRequirements": ATTRIBUTES}))
    types, remarks = the_group()
    assert types == []
    assert f"AWS chooses its instance types by attributes: {WRITE}" in remarks


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        ({}, f"it names no instance type: {WRITE}"),
        ({"InstanceRequirements": ATTRIBUTES}, f"AWS chooses its instance types by attributes: {WRITE}"),
    ],
)
def test_template_without_a_type_is_a_remark(group: Group, data: dict[str, Any], remark: str) -> None:
    interfaces = [{"DeviceIndex": 0, "InterfaceType": "efa"}]
    group("none", {**data, "NetworkInterfaces": interfaces})
    types, remarks = the_group()
    assert types == [] and remark in remarks


def test_types_of_overrides_are_taken(group: Group) -> None:
    found = policy(
        {"InstanceType": "g5.xlarge"}, {"InstanceType": "g6.xlarge"}, {"InstanceType": "g6.2xlarge"}
    )
    group("mixed", MixedInstancesPolicy=found)
    types, remarks = the_group()
    assert types == ["g6.xlarge", "g6.2xlarge"]
    assert not any("instance_types" in each for each in remarks)


def test_fleet_file_without_types_is_refused_until_they_are_written(group: Group, tmp_path: Path) -> None:
    group("none", {"KeyName": "operators"})
    tags = {"team": "ml", "cost-center": "cc-1", "project": "atlas"}
    text = fleet_document("atlas", "found", [adopted()], (), budget="9 USD", tags=tags, channel="2026.10")
    file = tmp_path / "stacks" / "found" / "fleet.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        validate(str(file), root=tmp_path)
    assert "cloud[0].node_groups[0].instance_types" in {each.field for each in caught.value.findings}
