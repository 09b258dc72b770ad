"""A user's own program is judged with the types that the emulated AWS does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Checkout
from tests.e2e.test_check import change, git_of, rule_of
from tests.unit.verdict.conftest import Git

pytestmark = pytest.mark.xdist_group("e2e")

PROGRAM = '''\
"""A program of our own beside the fleet."""

from pathlib import Path

import pulumi
import pulumi_aws as aws

from gpufleet.stacks.program import run


class Password(pulumi.CustomResource):
    """A resource of a package whose plugin is not installed."""

    result: pulumi.Output[str]

    def __init__(self, name):
        super().__init__("random:index/randomPassword:RandomPassword", name, {"length": 20, "result": None})


tags = {"team": "ml-platform", "cost-center": "cc-0000", "project": "atlas"}
password = Password("password")
database = aws.rds.Instance(
    "jobs",
    instance_class="db.r6g.large",
    engine="mysql",
    allocated_storage=100,
    storage_encrypted=True,
    username="slurm",
    password=password.result,
)
aws.sns.Topic("events", tags={**tags, "database": database.endpoint.apply(lambda text: text.split(":")[0])})
aws.sagemaker.Domain(
    "lab",
    auth_mode="IAM",
    domain_name="lab",
    vpc_id="vpc-1",
    subnet_ids=["subnet-1"],
    default_user_settings={"execution_role": "arn:aws:iam::123456789012:role/lab"},
)
aws.ec2.Instance(
    "login",
    instance_type="g6e.2xlarge",
    ami="ami-1",
    region="us-east-1",
    root_block_device={"volume_size": 100, "volume_type": "gp3", "encrypted": True},
    tags=tags,
)
pulumi.export("database", database.endpoint)
'''
TYPES = [
    "aws:rds/instance:Instance",
    "aws:sagemaker/domain:Domain",
    "random:index/randomPassword:RandomPassword",
]


@pytest.fixture
def repository(tmp_path: Path) -> Checkout:
    """A fleet repository of `gpufleet new` with a program of its own."""
    env = {"HOME": str(tmp_path / "home"), "PULUMI_HOME": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
    done = Checkout(tmp_path, env).run("new", str(tmp_path / "fleet"))
    assert done.returncode == 0, done.stderr
    root = tmp_path / "fleet"
    (root / "stacks" / "__main__.py").write_text(PROGRAM)
    Git(root).commit("base")
    return Checkout(root, env)


def _amounts(document: dict[str, Any], name: str) -> list[Any]:
    lines = document["cost"]["lines"]
    return [each["after"] for each in lines if each["resource"].rpartition("::")[2] == name]


def test_inputs_are_judged_and_priced_and_outputs_unknown(repository: Checkout) -> None:
    document = repository.json("check", "sandbox", code=1)
    assert document["assumed"] == TYPES
    assert document["changes"]["create"] == 5
    assert "jobs" in {each["name"] for each in rule_of(document, "data-stores-encrypted")["violations"]}
    assert {each["name"] for each in rule_of(document, "required-tags")["violations"]} >= {"jobs", "lab"}
    assert {each["name"] for each in rule_of(document, "no-public-services")["violations"]} == {"lab"}
    assert rule_of(document, "services-encrypted")["status"] == "passed"
    assert rule_of(document, "imdsv2-required")["status"] == "failed"
    # Never 0: a price from the catalogue, or none, which the budget refuses.
    assert sum(_amounts(document, "login")) > 1000
    assert (_amounts(document, "jobs"), _amounts(document, "lab")) == ([None], [None])
    assert {each["resource"].rpartition("::")[2] for each in document["cost"]["unknown"]} == {"jobs", "lab"}
    unknown = rule_of(document, "budget-unknown-cost")["violations"]
    assert {each["name"] for each in unknown if each["effect"] == "mandatory"} == {"jobs", "lab"}


def test_change_of_such_a_resource_is_compared_with_its_base(repository: Checkout) -> None:
    change(repository, ("allocated_storage=100", "allocated_storage=200"), file="stacks/__main__.py")
    document = repository.json("check", "sandbox", "--base", "main", code=1)
    (changed,) = document["changes"]["resources"]
    assert (changed["name"], changed["operation"], changed["diff"]) == (
        "jobs",
        "update",
        ["allocatedStorage"],
    )
    assert document["changes"]["same"] == 4
    assert document["judged_by"]["code"] == "change"
    assert git_of(repository)("status", "--porcelain") == "M stacks/__main__.py"


def test_up_of_the_sandbox_refuses_such_types_before_its_first_change(repository: Checkout) -> None:
    try:
        previewed = repository.json("preview", "sandbox", "--skip-policies")
        # With the stack itself.
        assert previewed["ok"] and previewed["changes"]["create"] == 6
        done = repository.run("up", "sandbox", "--yes")
        assert done.returncode != 0
        assert (
            "the emulated AWS of gpufleet does not have the type aws:sagemaker/domain:Domain" in done.stdout
        )
        assert "no provider plugin for package 'random'" in done.stdout
        assert not (repository.root / ".gpufleet" / "state" / "sandbox" / "sandbox.json").exists()
    finally:
        repository.run("sandbox", "stop")
