"""A checkout with a small fleet of one site and an emulated AWS, used only by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.conftest import Checkout, make_checkout
from tests.e2e.changes_fleet import changed, small

RUN = ("--engine", "embedded", "--yes", "--skip-policies")
NODES = "cloud[near].node_groups[only]"


class Place:
    """A checkout with a small fleet of one Slurm site, and its emulated AWS."""

    def __init__(self, folder: Path) -> None:
        self.checkout: Checkout = make_checkout(folder)
        self._file = self.checkout.root / "stacks" / "test" / "fleet.yaml"
        self._file.parent.mkdir()
        (self.checkout.root / "stacks" / "Pulumi.test.yaml").write_text(
            "config:\n  gpufleet:cloud: sandbox\n"
        )
        self.write({})

    def write(self, changes: dict[str, Any]) -> None:
        """The fleet with changes."""
        fleet = {
            "apiVersion": "gpufleet/v1",
            "fleet": "flt",
            "environment": "test",
            "budget": {"monthly": "900000 USD"},
            "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
            "cloud": [small("near", "us-east-1", "10.42.0.0/16")],
            "software": {"channel": "2026.11"},
        }
        self._file.write_text(yaml.safe_dump(changed(fleet, changes), sort_keys=False))

    def faults(self, *arguments: str) -> dict[str, Any]:
        """`gpufleet sandbox faults`; active and injected faults."""
        reported: dict[str, Any] = self.checkout.json("sandbox", "faults", *arguments)
        return reported

    def up(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """`gpufleet up`."""
        reported: dict[str, Any] = self.checkout.json("up", "test", *RUN, *arguments, code=code)
        return reported

    def state(self) -> str:
        """The stack's state, as the file has it."""
        return (self.checkout.root / ".gpufleet/state/sandbox/test.json").read_text()

    def failures(self) -> list[str]:
        """A failing `gpufleet up`: its message for each resource."""
        return [each["error"] for each in self.up(code=4)["failures"] if "error" in each]

    def finished(self) -> dict[str, Any]:
        """Run again without faults to finish; its changes."""
        self.faults("--clear")
        done = self.up()
        assert done["ok"]
        changes: dict[str, Any] = done["changes"]
        return changes
