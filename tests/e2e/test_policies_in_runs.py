"""The policy pack in `preview` and `up`: what breaks a rule is stopped before anything changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.sandbox import daemon
from gpufleet.sandbox.inventory import list_resources
from tests.conftest import Checkout, make_checkout

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


class Small:
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
        """What exists in the emulated account."""
        endpoint = daemon.ensure(self.checkout.root / ".gpufleet" / "sandbox")
        return list(list_resources(endpoint, regions=("us-east-1",)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    checkout = make_checkout(Path(tmp_path_factory.mktemp("small")))
    yield Small(checkout)
    checkout.run("sandbox", "stop")


def test_a_broken_rule_stops_up_before_anything_exists(small: Small) -> None:
    small.write("60000 USD", "200 USD")
    refused = small.checkout.json("up", *RUN, "--yes", code=1)
    assert not refused["ok"]
    broken = {each["policy"] for each in refused["violations"] if each["enforcement"] == "mandatory"}
    assert "budget-monthly" in broken
    assert small.in_the_account == []


def test_rules_that_are_left_out_are_left_out_aloud(small: Small) -> None:
    small.write("60000 USD", "200 USD")
    done = small.checkout.run("preview", *RUN, "--skip-policies")
    assert done.returncode == 0, done.stderr
    assert "policies are left out" in done.stderr
    assert "budget-monthly" not in done.stdout


def test_what_keeps_the_rules_comes_up_and_a_second_run_changes_nothing(small: Small) -> None:
    small.write()
    done = small.checkout.json("up", *RUN, "--yes")
    assert done["changes"]["create"] > 20
    assert [each for each in done["violations"] if each["enforcement"] == "mandatory"] == []
    again = small.checkout.json("up", *RUN, "--yes")
    assert (again["changes"]["create"], again["changes"]["same"]) == (0, done["changes"]["create"])


def test_storage_that_would_be_deleted_stops_up_while_it_is_still_there(small: Small) -> None:
    existing = small.in_the_account
    small.write("name: scratch", "name: other")
    refused = small.checkout.json("up", *RUN, "--yes", code=1)
    broken = [each for each in refused["violations"] if each["policy"] == "storage-survives"]
    assert any("scratch" in each["urn"] for each in broken)
    assert small.in_the_account == existing


def test_an_exemption_lets_the_deletion_pass_and_is_told(small: Small) -> None:
    exemption = (
        "exemptions:\n"
        "  - { rule: storage-survives, resource: atlas-small-use1-scratch*, reason: moved to other,"
        " approver: jane, expires: 2999-12-31 }\n"
        "software:"
    )
    small.file.write_text(
        FLEET.replace("name: scratch", "name: other").replace("software:", exemption), encoding="utf-8"
    )
    done = small.checkout.json("preview", *RUN)
    told = [each for each in done["violations"] if each["policy"] == "storage-survives"]
    assert told
    assert all(
        each["enforcement"] == "advisory" and "exempted until 2999-12-31 by jane" in each["message"]
        for each in told
    )
