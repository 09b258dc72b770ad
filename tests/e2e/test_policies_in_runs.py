"""The policy pack in `preview` and `up`: a violation stops the run before any change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.inventory import list_resources
from gpufleet.policy.report import REPORT, read_report
from tests.conftest import ROOT, Checkout, make_checkout
from tests.previewed import preview_environment

pytestmark = pytest.mark.xdist_group("e2e")

FLEET = """\
apiVersion: gpufleet/v1
fleet: atlas
environment: small
budget: { monthly: 60000 USD }
tags: { team: ml-platform, cost-center: cc-4711, project: atlas }
cloud:
  - site: use1
    region: us-east-1
    zones: [us-east-1a]
    network: { cidr: 10.71.0.0/16 }
    scheduler: slurm
    node_groups:
      - name: burst
        instance_types: [g6e.2xlarge]
        capacity: { on_demand: { min: 0, max: 2 } }
    storage:
      - name: scratch
        lustre: { deployment: scratch-2, capacity: 1200 GiB, zone: us-east-1a }
software: { channel: 2026.11 }
"""
RUN = ("small", "--engine", "embedded", "--cloud", "sandbox")


class SmallCheckout:
    """A checkout with one small environment."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.file = checkout.root / "stacks" / "small" / "fleet.yaml"
        self.file.parent.mkdir()
        self.write()

    def write(self, old: str = "", new: str = "") -> None:
        """The fleet file, with `old` replaced."""
        assert old in FLEET
        self.file.write_text(FLEET.replace(old, new) if old else FLEET, encoding="utf-8")

    @property
    def in_the_account(self) -> list[object]:
        """Resources in the emulated account."""
        endpoint = daemon.ensure(self.checkout.root / ".gpufleet" / "sandbox")
        return list(list_resources(endpoint, regions=("us-east-1",)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCheckout]:
    checkout = make_checkout(Path(tmp_path_factory.mktemp("small")))
    yield SmallCheckout(checkout)
    checkout.run("sandbox", "stop")


def test_violation_stops_up_before_any_resource_exists(small: SmallCheckout) -> None:
    small.write("60000 USD", "200 USD")
    refused = small.checkout.json("up", *RUN, "--yes", code=1)
    assert not refused["ok"]
    broken = {each["policy"] for each in refused["violations"] if each["enforcement"] == "mandatory"}
    assert "budget-monthly" in broken
    assert small.in_the_account == []


def test_skipped_policies_are_reported(small: SmallCheckout) -> None:
    small.write("60000 USD", "200 USD")
    done = small.checkout.run("preview", *RUN, "--skip-policies")
    assert done.returncode == 0, done.stderr
    assert "policies are skipped" in done.stderr
    assert "budget-monthly" not in done.stdout


def test_pulumi_policy_configuration_overrides_the_fleet_file(small: SmallCheckout, tmp_path: Path) -> None:
    small.file.write_text(
        FLEET.replace("60000 USD", "200 USD").replace(
            "software:", "policies: { budget-monthly: { enforcement: mandatory } }\nsoftware:"
        ),
        encoding="utf-8",
    )
    config = tmp_path / "config.json"
    levels = dict.fromkeys(("budget-monthly", "budget-at-maximum"), "advisory")
    config.write_text(json.dumps(levels), encoding="utf-8")
    judged = small.checkout.json("preview", *RUN, "--policy-config", str(config))
    found = {each["policy"]: each["enforcement"] for each in judged["violations"]}
    assert found["budget-monthly"] == found["budget-at-maximum"] == "advisory"
    config.write_text('{"budget-monthy": "advisory"}', encoding="utf-8")
    refused = small.checkout.run("preview", *RUN, "--policy-config", str(config))
    assert refused.returncode == 2
    assert "budget-monthy" in refused.stderr
    assert "did you mean 'budget-monthly'" in refused.stderr


def test_compliant_stack_deploys_and_a_second_run_changes_nothing(small: SmallCheckout) -> None:
    small.write()
    done = small.checkout.json("up", *RUN, "--yes")
    assert done["changes"]["create"] > 20
    assert [each for each in done["violations"] if each["enforcement"] == "mandatory"] == []
    again = small.checkout.json("up", *RUN, "--yes")
    assert (again["changes"]["create"], again["changes"]["same"]) == (0, done["changes"]["create"])


def test_up_stops_before_it_deletes_storage(small: SmallCheckout) -> None:
    existing = small.in_the_account
    small.write("name: scratch", "name: other")
    refused = small.checkout.json("up", *RUN, "--yes", code=1)
    broken = [each for each in refused["violations"] if each["policy"] == "storage-survives"]
    assert any("scratch" in each["urn"] for each in broken)
    assert small.in_the_account == existing


def test_exempted_deletion_passes_and_is_reported(small: SmallCheckout) -> None:
    exemption = (
        "exemptions:\n"
        "  - { rule: storage-survives, resource: atlas-small-use1-scratch*, reason: moved to other,"
        " approver: jane, expires: 2026-12-31 }\n"
        "software:"
    )
    small.file.write_text(
        FLEET.replace("name: scratch", "name: other").replace("software:", exemption), encoding="utf-8"
    )
    done = small.checkout.json("preview", *RUN, env={"GPUFLEET_POLICY_NOW": "2026-11-21T12:00:00+00:00"})
    reported = [each for each in done["violations"] if each["policy"] == "storage-survives"]
    assert reported
    assert all(
        each["enforcement"] == "advisory" and "exempted until 2026-12-31 by jane" in each["message"]
        for each in reported
    )


@pytest.mark.skipif(shutil.which("pulumi") is None, reason="the Pulumi CLI is not on PATH")
def test_policy_pack_finds_the_same_violations_under_the_pulumi_cli(
    checkout: Checkout, tmp_path: Path
) -> None:
    fleet = checkout.root / "stacks" / "prod" / "fleet.yaml"
    text = fleet.read_text(encoding="utf-8")
    for good, bad in (
        ("monthly: 3200000 USD", "monthly: 29000 USD"),
        ("private_cidrs: [10.60.0.0/22]", "public_cidrs: [0.0.0.0/1, 128.0.0.0/1]"),
    ):
        assert good in text
        text = text.replace(good, bad)
    fleet.write_text(text, encoding="utf-8")
    ours = preview_environment(checkout.root, "prod")
    report = tmp_path / "report.json"
    path = f"{ROOT}/gpufleet/lab/plugin:{ROOT}/.venv/bin:{os.environ['PATH']}"
    env = os.environ | checkout.env | {"PATH": path, "PULUMI_CONFIG_PASSPHRASE": "x"}
    env |= {
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        REPORT: str(report),
    }
    settings = ("-c", "gpufleet:cloud=sandbox", "-c", "gpufleet:protect=true")
    for arguments in (
        ("stack", "select", "--create", "prod"),
        ("preview", "-s", "prod", *settings, "--policy-pack", "policies"),
    ):
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=checkout.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode != 0, "mandatory violations end the CLI's preview"
    theirs = read_report(report)
    found = {(each.rule, each.level, each.urn, each.message) for each in ours.found}
    assert {(each.rule, each.level, each.urn, each.message) for each in theirs.found} == found
    assert {"budget-monthly", "eks-endpoint-private"} <= {each.rule for each in ours.found}
    assert {each.urn: each.type for each in theirs.stack} == {each.urn: each.type for each in ours.stack}
