"""`gpufleet image build` in an emulated EC2; what runs on the instance is in tests/rack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

from gpufleet.account.image_builder import BUILD_TAG
from gpufleet.errors import CloudError
from gpufleet.lab.aws.backends import install
from gpufleet.plan.images import SLURM
from gpufleet.racks.image_host import ImageHost
from tests.unit.cli.conftest import Answer, Gpufleet

FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "prod",
    "budget": {"monthly": "90000 USD", "alerts": ["80%"]},
    "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
    "cloud": [
        {
            "site": "use1",
            "region": "us-east-1",
            "zones": ["us-east-1a"],
            "network": {"cidr": "10.40.0.0/22"},
            "scheduler": "slurm",
            "slurm": {
                "servers": {
                    "image": "ami-0123456789abcdef0",
                    "ssh": {"user": "ubuntu", "keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"]},
                    "package_mirror": "https://packages.example.com",
                    "teams": [{"name": "research", "gpus": 0}],
                }
            },
            "node_groups": [
                {
                    "name": "train",
                    "instance_types": ["g6e.xlarge"],
                    "image": "ami-0123456789abcdef0",
                    "capacity": {"on_demand": {"min": 0, "max": 2}},
                }
            ],
        }
    ],
    "software": {"channel": "2026.11"},
}
LINES = (("ssh-ed25519", "AAAAhost"),)


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    install()
    with mock_aws():
        yield boto3.client("ec2", region_name="us-east-1")


@pytest.fixture
def outputs(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The stack's outputs, with a launch template and a subnet that exist."""
    vpc = ec2.create_vpc(CidrBlock="10.40.0.0/22")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.40.0.0/24")["Subnet"]["SubnetId"]
    made = ec2.create_launch_template(
        LaunchTemplateName="nodes", LaunchTemplateData={"InstanceType": "g6e.xlarge"}
    )
    template = made["LaunchTemplate"]["LaunchTemplateId"]
    group = {"prefix": "use1-train-", "launch_template": template, "version": "1", "subnets": [subnet]}
    found = {"use1": {"slurm": {"groups": [group]}}}
    monkeypatch.setattr("gpufleet.cli.configure_setup.stack_outputs", lambda *_: found)
    return found


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ImageHost, str]]:
    """The instances that Ansible configured, with their package mirrors."""
    found: list[tuple[ImageHost, str]] = []

    def configure(_project: Path, folder: Path, host: ImageHost, mirror: str, *_: Any) -> None:
        assert (folder / "key").stat().st_mode & 0o077 == 0
        found.append((host, mirror))

    monkeypatch.setattr("gpufleet.cli.image_build.configure_image", configure)
    monkeypatch.setattr("gpufleet.account.image_builder.console_keys", lambda *_: LINES)
    monkeypatch.setattr("botocore.waiter.time.sleep", lambda _: None)
    return found


@pytest.fixture
def build(gpufleet: Gpufleet, workplace: Path, outputs: Any, configured: Any) -> Callable[..., Answer]:
    """Run the command for the fleet file, as `edit` changes it."""

    def run(*arguments: str, edit: Callable[[Any], None] = lambda _: None) -> Answer:
        fleet = yaml.safe_load(yaml.safe_dump(FLEET))
        edit(fleet)
        file = workplace / "fleet.yaml"
        file.write_text(yaml.safe_dump(fleet))
        return gpufleet("image", "build", str(file), *arguments)

    return run


def alive(ec2: Any) -> list[str]:
    awake = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
    found = ec2.describe_instances(Filters=awake)["Reservations"]
    return [each["InstanceId"] for one in found for each in one["Instances"]]


def test_image_is_built_on_the_locked_one_through_session_manager(
    build: Callable[..., Answer], ec2: Any, configured: list[tuple[ImageHost, str]]
) -> None:
    reported = build("--yes", "--json").json
    assert (reported["site"], reported["region"]) == ("use1", "us-east-1")
    (image,) = ec2.describe_images(ImageIds=[reported["image"]])["Images"]
    assert image["Name"] == reported["name"] and reported["name"].startswith("atlas-prod-use1-slurm-")
    tags = {each["Key"]: each["Value"] for each in image["Tags"]}
    assert tags["gpufleet:image-base"] == reported["base"]
    assert (tags["gpufleet:site"], tags["team"]) == ("use1", "ml")
    assert "Ubuntu 22.04" in image["Description"] and SLURM.endswith("22.04")
    ((host, mirror),) = configured
    assert (host.user, host.keys, mirror) == ("ubuntu", LINES, "https://packages.example.com")
    assert "aws ssm start-session --region us-east-1 --target i-" in host.variables["ansible_ssh_extra_args"]
    assert alive(ec2) == []


def test_text_says_what_to_do_with_the_image(
    build: Callable[..., Answer], ec2: Any, configured: list[tuple[ImageHost, str]]
) -> None:
    reported = build("--yes", "--from", "ami-12c6146b", "--user", "admin", "--direct")
    assert reported.code == 0, reported.err
    image = reported.out.partition(":")[0]
    assert image.startswith("ami-") and "on ami-12c6146b" in reported.out
    assert f"write `image: {image}` to node groups of use1" in " ".join(reported.out.split())
    ((host, _),) = configured
    assert (host.user, dict(host.variables)) == ("admin", {})


def test_without_consent_nothing_is_launched(build: Callable[..., Answer], ec2: Any) -> None:
    reported = build("--json")
    assert reported.code == 2
    assert "an instance that costs money needs confirmation" in reported.err + reported.out
    assert alive(ec2) == []


def test_second_build_is_refused_unless_it_discards_the_first(build: Callable[..., Answer], ec2: Any) -> None:
    tags = {
        "gpufleet:fleet": "atlas",
        "gpufleet:environment": "prod",
        "gpufleet:site": "use1",
        BUILD_TAG: "x",
    }
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    made = ec2.run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": listed}],
    )
    left = made["Instances"][0]["InstanceId"]
    reported = build("--yes")
    assert reported.code == 1
    assert (
        f"{left}: another build of use1 runs, or was killed" in reported.err and "--discard" in reported.err
    )
    assert alive(ec2) == [left]
    assert build("--yes", "--discard").code == 0
    assert alive(ec2) == []


def test_failed_configuration_ends_the_instance_and_makes_no_image(
    build: Callable[..., Answer], ec2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise CloudError("no package slurmd", remedy="add it")

    monkeypatch.setattr("gpufleet.cli.image_build.configure_image", fail)
    reported = build("--yes")
    assert reported.code == 4 and "no package slurmd" in reported.err
    assert alive(ec2) == []
    assert ec2.describe_images(Owners=["self"])["Images"] == []


def test_error_of_ec2_is_one_message(build: Callable[..., Answer], outputs: dict[str, Any], ec2: Any) -> None:
    outputs["use1"]["slurm"]["groups"][0]["subnets"] = ["subnet-00000000"]
    reported = build("--yes")
    assert reported.code == 4
    assert "the image of use1 was not built" in reported.err and "InvalidSubnetID.NotFound" in reported.err
    assert "Traceback" not in reported.err


def _without_slurm(fleet: Any) -> None:
    del fleet["cloud"][0]["slurm"]


@pytest.mark.parametrize(
    ("arguments", "edit", "words"),
    [
        (
            ["--site", "usw2"],
            None,
            "--site 'usw2' does not name one of the sites whose nodes Slurm launches: use1",
        ),
        (["--group", "none"], None, "--group 'none' is not one of the node groups of use1: train"),
        (["--from", "ami-00000000000000000"], None, "image 'ami-00000000000000000': 0 images in us-east-1"),
        ([], _without_slurm, "does not name one of the sites whose nodes Slurm launches: none"),
    ],
)
def test_wrong_choice_is_refused_with_what_there_is(
    build: Callable[..., Answer], ec2: Any, arguments: list[str], edit: Any, words: str
) -> None:
    reported = build("--yes", *arguments, **({"edit": edit} if edit else {}))
    assert reported.code == 2
    assert words in " ".join(reported.err.split()) and "fix:" in reported.err
    assert alive(ec2) == []


def test_account_is_that_of_the_stack_settings_also_for_a_file_elsewhere(
    build: Callable[..., Answer], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "stacks" / "Pulumi.prod.yaml").write_text("config: { aws:profile: ops }\n")
    asked: list[tuple[Any, ...]] = []

    def opened(*given: Any) -> boto3.Session:
        asked.append(given)
        return boto3.Session(region_name="us-east-1")

    monkeypatch.setattr("gpufleet.aws_session.open_session", opened)
    assert build("--yes").code == 0
    assert asked == [("ops", "us-east-1", ())]


def test_site_that_is_not_built_is_refused(build: Callable[..., Answer], outputs: dict[str, Any]) -> None:
    outputs.clear()
    reported = build("--yes")
    assert reported.code == 2
    assert "use1 has no launch template of train yet" in reported.err
    assert "gpufleet up" in reported.err


def test_sandbox_has_no_instance_to_build_on(gpufleet: Gpufleet) -> None:
    reported = gpufleet("image", "build", "sandbox", "--yes")
    assert reported.code == 2
    assert "its instances are emulated" in reported.err
