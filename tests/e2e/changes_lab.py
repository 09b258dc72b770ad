"""An emulated account with a deployed fleet, on which changes are previewed with the embedded engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import yaml
from msgspec.structs import replace

from gpufleet import preload
from gpufleet.changes.observe import ObservedStep, observed_steps
from gpufleet.engine.api import ResourceEvent, RunResult
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.workspace import Workspace
from tests.conftest import make_checkout


@dataclass(frozen=True)
class ObservedRun:
    """The result of a run, and its steps or planned steps on cloud resources."""

    result: RunResult
    steps: tuple[ObservedStep, ...]


PROVIDERS = {
    "aws": (sys.executable, "-m", "gpufleet.lab.aws.provider"),
    "kubernetes": (sys.executable, "-m", "gpufleet.lab.kubernetes"),
}

GROUP = "own-group"
"""A cluster placement group outside any stack."""


class Lab:
    """A checkout with its own emulated AWS, for fleets of the environment `test`."""

    def __init__(self, folder: Path) -> None:
        self.root = make_checkout(folder).root
        self._folder = self.root / "stacks" / "test"
        self._folder.mkdir()
        (self.root / "stacks" / "Pulumi.test.yaml").write_text("config:\n  gpufleet:cloud: sandbox\n")
        self.endpoint = daemon.ensure(self.root / ".gpufleet" / "sandbox")

    def client(self, service: str, region: str) -> Any:
        """A boto3 client of the emulated account."""
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint.url,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )

    def held(self) -> dict[str, dict[str, str]]:
        """Reservations outside any stack, in the regions of the sites that use them."""
        return {"kube": self._held("us-east-1"), "batch": self._held("us-west-2")}

    def _held(self, region: str) -> dict[str, str]:
        near, far = f"{region}a", f"{region}b"
        group = self.client("ec2", region).create_placement_group(GroupName=GROUP, Strategy="cluster")
        arn = group["PlacementGroup"]["GroupArn"]
        return {
            "odcr": self._reserve(near),
            "lent_odcr": self._reserve(near),
            "same_zone_odcr": self._reserve(near),
            "other_odcr": self._reserve(far),
            "other_type_odcr": self._reserve(near, "g6e.4xlarge"),
            "grouped_odcr": self._reserve(near, PlacementGroupArn=arn),
            "pool": self._pool("pool", near),
            "other_pool": self._pool("other-pool", near),
            "block": self._buy_block(near),
            "same_zone_block": self._buy_block(near),
            "other_block": self._buy_block(far),
            "other_type_block": self._buy_block(near, "p5en.48xlarge"),
        }

    def _reserve(self, zone: str, kind: str = "g6e.2xlarge", **more: str) -> str:
        made = self.client("ec2", zone[:-1]).create_capacity_reservation(
            InstanceType=kind,
            InstancePlatform="Linux/UNIX",
            AvailabilityZone=zone,
            InstanceCount=2,
            InstanceMatchCriteria="targeted",
            **more,
        )
        return str(made["CapacityReservation"]["CapacityReservationId"])

    def _pool(self, name: str, zone: str) -> str:
        groups = self.client("resource-groups", zone[:-1])
        made = groups.create_group(Name=name, Configuration=[{"Type": "AWS::EC2::CapacityReservationPool"}])
        arn = str(made["Group"]["GroupArn"])
        ec2 = self.client("ec2", zone[:-1])
        (held,) = ec2.describe_capacity_reservations(CapacityReservationIds=[self._reserve(zone)])[
            "CapacityReservations"
        ]
        groups.group_resources(Group=arn, ResourceArns=[held["CapacityReservationArn"]])
        return arn

    def _buy_block(self, zone: str, kind: str = "p5.48xlarge") -> str:
        ec2 = self.client("ec2", zone[:-1])
        offered = ec2.describe_capacity_block_offerings(
            InstanceType=kind,
            InstanceCount=1,
            CapacityDurationHours=24,
            StartDateRange=datetime.now(UTC) + timedelta(days=3),
        )["CapacityBlockOfferings"]
        chosen = next(each for each in offered if each["AvailabilityZone"] == zone)
        bought = ec2.purchase_capacity_block(
            CapacityBlockOfferingId=chosen["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
        )
        return str(bought["CapacityReservation"]["CapacityReservationId"])

    def write(self, name: str, fleet: Mapping[str, Any]) -> Path:
        """The fleet as a file of the environment."""
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(dict(fleet), sort_keys=False))
        return path

    def run(self, verb: str, path: Path, environment: str = "test") -> ObservedRun:
        """One run of the embedded engine; its failures fail the test."""
        workspace = Workspace(self.root, str(path))
        events: list[ResourceEvent] = []

        def take(event: object) -> None:
            if isinstance(event, ResourceEvent):
                events.append(event)

        request = replace(
            workspace.offline_request(environment, "sandbox", parallel=8),
            env=daemon.sandbox_env(self.endpoint),
            providers=PROVIDERS,
            preload=(*preload.PROGRAMS, *preload.PROVIDERS),
        )
        result: RunResult = getattr(EmbeddedEngine(), verb)(request, take)
        reported = [(each.name, each.error) for each in result.failures] or [
            each.message for each in result.diagnostics if each.severity == "error"
        ]
        assert result.ok, reported
        return ObservedRun(result, observed_steps(events))

    def stop(self) -> None:
        """Stop the emulated AWS."""
        daemon.stop(self.root / ".gpufleet" / "sandbox")


def steps_text(steps: Sequence[ObservedStep]) -> str:
    """Steps for a message."""
    return "; ".join(f"{step.how} {step.type} {step.name} {sorted(step.diff)}" for step in steps)
