"""What is read of a region: whatever its launch templates and clusters name."""

from __future__ import annotations

import pytest

from gpufleet.adopt import account as reading
from tests.unit.adopt.conftest import Group, adopted, client, read, remarks_on

PARAMETER = "resolve:ssm:/team/images/trainer"
GONE = "ami-0feedfacefeedface"


def own_image(name: str) -> str:
    """An image of the account."""
    ec2 = client("ec2")
    base = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    (instance,) = ec2.run_instances(ImageId=base, MinCount=1, MaxCount=1)["Instances"]
    return str(ec2.create_image(InstanceId=instance["InstanceId"], Name=name)["ImageId"])


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


@pytest.mark.parametrize("others", [0, 1, 2], ids=lambda count: f"{count} images that exist")
def test_deregistered_image_is_a_remark(group: Group, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """DescribeImages with ImageIds answers InvalidAMIID.NotFound for it, and lists no image at all."""
    monkeypatch.setattr(reading, "_FILTER_VALUES", 2)
    own = [own_image(f"trainer-{number}") for number in range(others)]
    for number, image in enumerate([GONE, *own]):
        group(f"group-{number}", {"InstanceType": "g6.xlarge", "ImageId": image})
    assert read().images == {image: f"trainer-{number}" for number, image in enumerate(own)}
    site = adopted()
    (gone,) = [each for each in remarks_on(site, "group-0") if "image" in each]
    assert gone.startswith(f"its image {GONE} is deregistered, or no longer shared with this account")
    found = [each.get("image") for each in site.fields["node_groups"]]
    assert found == [None, *own]


@pytest.mark.parametrize("mode", ["CONFIG_MAP", "API_AND_CONFIG_MAP", "API"])
def test_administrators_of_a_cluster_without_access_entries_are_a_remark(
    subnets: list[str], mode: str
) -> None:
    client("eks").create_cluster(
        name="old",
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": mode},
    )
    site = adopted()
    assert ("admins" in site.fields["kubernetes"]) is (mode != "CONFIG_MAP")
    asked = [each for each in remarks_on(site, "old") if "authentication mode is CONFIG_MAP" in each]
    assert len(asked) == (mode == "CONFIG_MAP")
    assert all("write their roles and users as `admins` and `viewers`" in each for each in asked)
