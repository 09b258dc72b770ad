"""Two checkouts, one a copy of the other, both with a running emulated AWS."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.inventory import list_resources
from tests.conftest import Checkout
from tests.e2e.place import RUN, Place

pytestmark = pytest.mark.xdist_group("e2e-faults")


def resources(checkout: Checkout) -> set[str]:
    """Ids of what the account of a checkout holds."""
    endpoint = daemon.status(checkout.root / ".gpufleet" / "sandbox")
    assert endpoint is not None
    return {str(each) for each in list_resources(endpoint, regions=("us-east-1",))}


def test_copied_checkout_keeps_its_account_and_does_not_affect_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "first").mkdir()
    first = Place(tmp_path / "first").checkout
    second = replace(first, root=tmp_path / "second")
    try:
        first.json("up", "test", *RUN)
        before = resources(first)
        assert len(before) > 20
        subprocess.run(["cp", "-a", first.root, second.root], check=True)

        assert second.json("sandbox", "status")["running"] is False
        again = second.json("up", "test", *RUN)["changes"]
        assert (again["create"], again["delete"], again["same"] > 20) == (0, 0, True)
        assert resources(second) == before
        urls = {each.json("sandbox", "status")["url"] for each in (first, second)}
        assert len(urls) == 2

        second.json("destroy", "test", "--engine", "embedded", "--yes", "--allow-data-loss")
        assert resources(first) == before
        assert len(resources(second)) < len(before)
        assert first.json("up", "test", *RUN)["changes"]["same"] == again["same"]
    finally:
        for checkout in (first, second):
            checkout.run("sandbox", "stop")
