"""What is read of a region: whatever its launch templates and clusters name."""

from __future__ import annotations

from tests.unit.adopt.conftest import Group, adopted, read, remarks_on

PARAMETER = "resolve:ssm:/team/images/trainer"


def test_image_of_an_ssm_parameter_is_a_remark(group: Group) -> None:
    """DescribeImages answers InvalidAMIID.Malformed for it, and one launch template has to stop nothing."""
    group("trainer", {"InstanceType": "g6.xlarge", "ImageId": PARAMETER})
    group("plain", {"InstanceType": "g6.xlarge"})
    assert read().images == {}
    site = adopted()
    assert [each["name"] for each in site.fields["node_groups"]] == ["trainer", "plain"]
    assert all("image" not in each for each in site.fields["node_groups"])
    (text,) = [each for each in remarks_on(site, "trainer") if "image" in each]
    assert text.startswith(f"its image is {PARAMETER}; the fleet takes the release of its software channel")
