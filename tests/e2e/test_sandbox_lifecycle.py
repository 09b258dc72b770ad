"""The main use case: up, up again, refresh, destroy, on a sandbox."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.inventory import list_resources
from tests.conftest import Checkout
from tests.programs import find_program

SLEEP_UNDER_FAKETIME = Path(__file__).parent / "two_years_ahead"

pytestmark = pytest.mark.xdist_group("e2e")


def _leftovers(checkout: Checkout) -> list[object]:
    endpoint = daemon.ensure(checkout.root / ".gpufleet" / "sandbox")
    return list(list_resources(endpoint, regions=("us-east-1", "us-east-2", "us-west-2")))


def two_years_later(checkout: Checkout, *arguments: str) -> Any:
    """The command's JSON with the clock of all its processes two years ahead."""
    # The monotonic clock stays: waits with a timeout must not see a jump between processes.
    # Its workaround for that clock in some glibc releases makes thread waits spin: a run takes three times
    # as long.
    env = {
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "PYTHONPATH": str(SLEEP_UNDER_FAKETIME),
    }
    return checkout.json(*arguments, env=env, prefix=(find_program("faketime"), "-f", "+730d"))


@pytest.fixture(scope="module")
def first_runs(shared_checkout: Checkout) -> tuple[Any, Any]:
    """Output of the first preview and the first up."""
    promised = shared_checkout.json("preview", "sandbox", "--engine", "embedded")
    return promised, shared_checkout.json("up", "sandbox", "--engine", "embedded", "--yes")


@pytest.fixture(scope="module")
def deployed(shared_checkout: Checkout, first_runs: tuple[Any, Any]) -> Checkout:
    result = first_runs[1]
    assert result["ok"], result
    assert result["changes"]["create"] > 100
    return shared_checkout


def test_preview_lists_what_up_creates(first_runs: tuple[Any, Any]) -> None:
    promised, done = first_runs
    assert promised["changes"]["create"] > 100
    assert done["changes"] == promised["changes"]
    assert (done["engine"], done["cloud"]) == ("embedded", "sandbox")
    assert done["duration_s"] > 0


def test_plan_preview_up_and_check_print_the_same_price(
    deployed: Checkout, first_runs: tuple[Any, Any]
) -> None:
    planned = deployed.json("plan", "sandbox")["cost"]
    assert [run["cost"] for run in first_runs] == [planned, planned]
    checked = deployed.json("check", "sandbox")["cost"]
    monthly = planned["monthly"]
    assert (checked["after"], checked["at_max"]) == (monthly["amount"], monthly["high"])
    assert checked["unknown"] == monthly["unknown"]
    assert checked["upfront"]["after"] == planned["upfront"]["amount"]
    assert checked["budget"] == planned["budget"]["monthly"]
    assert sorted(checked["not_counted"]) == sorted(planned["not_counted"])
    # A check has one line per resource, the others one per kind and owner: cents are rounded differently.
    for key, amount in (("after", "expected"), ("at_max", "high")):
        sums: dict[str, float] = defaultdict(float)
        for line in checked["lines"]:
            sums["/".join(filter(None, (line["site"], line["owner"])))] += line[key] or 0
        assert sums == pytest.approx(
            {name: each[amount] for name, each in planned["by_owner"].items()}, abs=0.1
        )


def test_second_up_changes_nothing(deployed: Checkout) -> None:
    again = deployed.json("up", "sandbox", "--engine", "embedded", "--yes")
    assert {key: again["changes"][key] for key in ("create", "update", "replace", "delete")} == {
        "create": 0,
        "update": 0,
        "replace": 0,
        "delete": 0,
    }
    assert again["changes"]["same"] > 100


def test_refresh_of_an_unchanged_cloud_finds_no_drift(deployed: Checkout) -> None:
    refreshed = deployed.json("refresh", "sandbox", "--engine", "embedded", "--yes")
    changes = refreshed["changes"]
    assert (changes["update"], changes["delete"], changes["create"], changes["replace"]) == (0, 0, 0, 0)


def test_up_two_years_later_changes_nothing(deployed: Checkout) -> None:
    deployed.run("sandbox", "stop")
    again = two_years_later(deployed, "up", "sandbox", "--engine", "embedded", "--yes")
    deployed.run("sandbox", "stop")
    assert again["ok"], again
    assert {key: again["changes"][key] for key in ("create", "update", "replace", "delete")} == {
        "create": 0,
        "update": 0,
        "replace": 0,
        "delete": 0,
    }


def test_destroy_leaves_no_resources_in_the_account(deployed: Checkout) -> None:
    assert _leftovers(deployed)
    result = deployed.json("destroy", "sandbox", "--engine", "embedded", "--yes", "--allow-data-loss")
    assert result["ok"], result
    assert _leftovers(deployed) == []
    assert deployed.json("outputs", "sandbox", "--engine", "embedded") == {}


@pytest.mark.fresh
def test_fresh_checkout_deploys_with_the_clock_two_years_ahead(checkout: Checkout) -> None:
    result = two_years_later(checkout, "up", "sandbox", "--engine", "embedded", "--yes")
    assert result["ok"], result
    assert result["changes"]["create"] > 100
