"""An emulated account whose capacity is limited, and where nodes take time to start."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.components import scaling_groups
from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.faults import shortage
from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.lab.two_zones import IMAGE

KIND, REGION = "g6.xlarge", "us-east-1"


class ScalingAccount:
    """Auto Scaling groups by name; `shortages` limit them, and `random` decides when a pending node runs."""

    def __init__(self, chance: random.Random) -> None:
        self.shortages: tuple[Shortage, ...] = ()
        self.random = chance
        self.now, self.slept = 0.0, 0
        self.most_asked = 0
        self.at_sleep: Callable[[], None] = lambda: None
        self.ec2, self.scaling = (boto3.client(name, region_name=REGION) for name in ("ec2", "autoscaling"))
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = {
            zone: self.ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}"
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate("ab")
        }
        self.ec2.create_launch_template(
            LaunchTemplateName="nodes", LaunchTemplateData={"ImageId": IMAGE, "InstanceType": KIND}
        )

    @property
    def groups(self) -> dict[str, Any]:
        """moto's own groups."""
        from moto.autoscaling.models import autoscaling_backends

        found: dict[str, Any] = autoscaling_backends["123456789012"][REGION].autoscaling_groups
        return found

    def group(self, name: str, zones: str = "ab", *, spot: bool = False, most: int = 16) -> None:
        """Create an empty group."""
        specification = {"LaunchTemplateName": "nodes", "Version": "$Latest"}
        bought: dict[str, Any] = {"LaunchTemplate": specification}
        if spot:
            policy = {"LaunchTemplateSpecification": specification, "Overrides": [{"InstanceType": KIND}]}
            distribution = {"OnDemandPercentageAboveBaseCapacity": 0}
            bought = {
                "MixedInstancesPolicy": {"LaunchTemplate": policy, "InstancesDistribution": distribution}
            }
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=most,
            DesiredCapacity=0,
            VPCZoneIdentifier=",".join(self.subnets[zone] for zone in zones),
            **bought,
        )

    def running(self) -> dict[str, int]:
        """Nodes by group, those that still start among them."""
        return {name: len(group.instance_states) for name, group in self.groups.items()}

    def in_service(self) -> dict[str, int]:
        """Nodes by group, without those that still start."""
        return {
            name: sum(1 for state in group.instance_states if state.lifecycle_state == "InService")
            for name, group in self.groups.items()
        }

    def asked(self) -> dict[str, int]:
        """Sizes by group."""
        return {name: int(group.desired_capacity) for name, group in self.groups.items()}

    def reclaim(self, name: str, count: int) -> None:
        """AWS takes nodes back, and has none to put in their place."""
        group = self.groups[name]
        taken, group.instance_states = group.instance_states[:count], group.instance_states[count:]
        for state in taken:
            self.ec2.terminate_instances(InstanceIds=[state.instance.id])

    def sleep(self, seconds: float) -> None:
        """Let time pass: nodes start, and groups try again."""
        self.now += seconds
        self.slept += 1
        for group in self.groups.values():
            for state in group.instance_states:
                if state.lifecycle_state == "Pending" and self.random.random() < 0.7:
                    state.lifecycle_state = "InService"
        self.at_sleep()


@contextmanager
def scaling_account(seed: int = 0) -> Iterator[ScalingAccount]:
    """An account of its own, where time passes by sleeping."""
    from moto.autoscaling.models import FakeAutoScalingGroup

    with ExitStack() as stack:
        # Before moto, which sets keys of its own: they would be what is restored.
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        stack.enter_context(mock_aws())
        install("ec2", "autoscaling")
        made = ScalingAccount(random.Random(seed))
        shortage.install(lambda: made.shortages)
        launch = FakeAutoScalingGroup.replace_autoscaling_group_instances

        def pending(group: Any, count: int, tags: dict[str, str]) -> None:
            before = list(group.instance_states)
            launch(group, count, tags)
            for state in group.instance_states:
                if state not in before:
                    state.lifecycle_state = "Pending"
            made.most_asked = max(made.most_asked, sum(made.running().values()))

        def active(group: Any) -> Sequence[Any]:
            return list(group.instance_states)

        pending.gpufleet_shortage = True  # type: ignore[attr-defined]
        patch.setattr(FakeAutoScalingGroup, "replace_autoscaling_group_instances", pending)
        patch.setattr(FakeAutoScalingGroup, "active_instances", active)
        patch.setattr(scaling_groups.time, "monotonic", lambda: made.now)
        patch.setattr(scaling_groups.time, "sleep", made.sleep)
        yield made
        shortage.install(tuple)
