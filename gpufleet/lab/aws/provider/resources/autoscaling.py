"""EC2 Auto Scaling groups."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, to_request
from gpufleet.lab.aws.provider.resources.ec2 import find
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle, until, until_gone
from gpufleet.lab.aws.provider.wire import Props, contains_unknown

_TIMEOUT_S = 600.0
_LOCAL = frozenset({
    "forceDelete", "forceDeleteWarmPool", "ignoreFailedScalingActivities", "instanceRefresh",
    "waitForCapacityTimeout",
    "waitForElbCapacity", "minElbCapacity", "enabledMetrics", "metricsGranularity", "suspendedProcesses",
    "warmPool",
    "namePrefix", "region", "tags",
})  # fmt: skip
_ONLY_AT_CREATION = frozenset({"loadBalancers", "targetGroupArns", "trafficSources", "initialLifecycleHooks"})
_NAMES = Names(
    rename={
        "name": "AutoScalingGroupName",
        "arn": "AutoScalingGroupARN",
        "vpcZoneIdentifiers": "VPCZoneIdentifier",
        "targetGroupArns": "TargetGroupARNs",
        "loadBalancers": "LoadBalancerNames",
        "protectFromScaleIn": "NewInstancesProtectedFromScaleIn",
        "launchConfiguration": "LaunchConfigurationName",
        "launchTemplate.id": "LaunchTemplateId",
        "launchTemplate.name": "LaunchTemplateName",
        "initialLifecycleHooks": "LifecycleHookSpecificationList",
        "initialLifecycleHooks.name": "LifecycleHookName",
        "serviceLinkedRoleArn": "ServiceLinkedRoleARN",
        "capacityReservationSpecification.capacityReservationTarget.capacityReservationResourceGroupArns":
            "CapacityReservationResourceGroupArns",
        **{
            f"{path}instanceRequirements.{key}": member
            for path in ("mixedInstancesPolicy.launchTemplate.overrides.",)
            for key, member in (("memoryMib", "MemoryMiB"), ("memoryGibPerVcpu", "MemoryGiBPerVCpu"))
        },
    },
    encode={"vpcZoneIdentifiers": ",".join},
    decode={"vpcZoneIdentifiers": lambda text: [item for item in str(text).split(",") if item]},
)  # fmt: skip


class Group(Handler):
    """aws.autoscaling.Group."""

    pulumi_type = "aws:autoscaling/group:Group"
    force_new = frozenset({"name", "namePrefix"})
    computed = frozenset({
        "availabilityZones", "defaultCooldown", "desiredCapacity", "healthCheckType", "loadBalancers",
        "mixedInstancesPolicy", "serviceLinkedRoleArn", "targetGroupArns", "terminationPolicies",
        "trafficSources",
        "vpcZoneIdentifiers", "capacityReservationSpecification", "availabilityZoneDistribution",
        "launchTemplate",
        "instanceLifecyclePolicy",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {
        "forceDelete": False, "forceDeleteWarmPool": False, "healthCheckGracePeriod": 300,
        "ignoreFailedScalingActivities": False, "metricsGranularity": "1Minute", "protectFromScaleIn": False,
        "waitForCapacityTimeout": "10m",
    }  # fmt: skip
    ordered = frozenset({"terminationPolicies"})
    sets = frozenset({"tags", "initialLifecycleHooks", "trafficSources"})
    auto_name = AutoName()

    def check(self, inputs: Props) -> list[Problem]:
        """Check that there is one way to launch, ascending sizes, and zones or subnets."""
        found = []
        ways = ("launchTemplate", "launchConfiguration", "mixedInstancesPolicy")
        if len([key for key in ways if inputs.get(key)]) != 1:
            found.append(
                Problem(
                    "launchTemplate", f"a group launches in exactly one way: set one of {', '.join(ways)}"
                )
            )
        sizes = [
            inputs.get("minSize"),
            inputs.get("desiredCapacity", inputs.get("minSize")),
            inputs.get("maxSize"),
        ]
        if not contains_unknown(sizes) and sizes != sorted(int(size) for size in sizes if size is not None):
            found.append(Problem("minSize", f"minSize, desiredCapacity and maxSize ({sizes}) must ascend"))
        if not inputs.get("vpcZoneIdentifiers") and not inputs.get("availabilityZones"):
            found.append(
                Problem("vpcZoneIdentifiers", "set vpcZoneIdentifiers (subnets) or availabilityZones")
            )
        return found

    def _parameters(self, aws: Aws, operation: str, inputs: Props, skip: frozenset[str]) -> dict[str, Any]:
        shape = aws.client("autoscaling").meta.service_model.operation_model(operation).input_shape
        values = {key: value for key, value in inputs.items() if key not in skip and not key.startswith("__")}
        return to_request(shape, values, _NAMES)

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the group and wait for its instances."""
        scaling, rid = aws.client("autoscaling"), str(inputs["name"])
        parameters = self._parameters(aws, "CreateAutoScalingGroup", inputs, _LOCAL)
        scaling.create_auto_scaling_group(**parameters, Tags=_tags(rid, inputs))
        with keep_on_failure(rid):
            self._after(aws, rid, {}, inputs)
            self._await_instances(aws, rid, inputs)
        return rid

    @staticmethod
    def _after(aws: Aws, rid: str, old: Props, new: Props) -> None:
        """Set what AWS accepts only for an existing group."""
        scaling = aws.client("autoscaling")
        of = {"AutoScalingGroupName": rid}
        before, after = set(old.get("enabledMetrics") or ()), set(new.get("enabledMetrics") or ())
        if before - after:
            scaling.disable_metrics_collection(**of, Metrics=sorted(before - after))
        if after - before:
            granularity = str(new.get("metricsGranularity") or "1Minute")
            scaling.enable_metrics_collection(**of, Granularity=granularity, Metrics=sorted(after - before))
        before, after = set(old.get("suspendedProcesses") or ()), set(new.get("suspendedProcesses") or ())
        if before - after:
            scaling.resume_processes(**of, ScalingProcesses=sorted(before - after))
        if after - before:
            scaling.suspend_processes(**of, ScalingProcesses=sorted(after - before))
        if new.get("warmPool") and new.get("warmPool") != old.get("warmPool"):
            aws.send("autoscaling", "PutWarmPool", new["warmPool"], None, **of)
        elif old.get("warmPool") and not new.get("warmPool"):
            scaling.delete_warm_pool(**of, ForceDelete=bool(new.get("forceDeleteWarmPool")))

    def _await_instances(self, aws: Aws, rid: str, inputs: Props) -> None:
        wanted = int(inputs.get("desiredCapacity") or inputs.get("minSize") or 0)
        if str(inputs.get("waitForCapacityTimeout")) in {"0", "0s"} or wanted == 0:
            return

        def probe() -> bool | None:
            instances = (self._find(aws, rid) or {}).get("Instances") or []
            return (
                True
                if len([i for i in instances if i.get("LifecycleState") == "InService"]) >= wanted
                else None
            )

        until(probe, timeout_s=_TIMEOUT_S, what=f"{wanted} instance(s) of {rid} being in service")

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(
            aws.client("autoscaling").describe_auto_scaling_groups,
            "AutoScalingGroups",
            AutoScalingGroupNames=[rid],
        )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The group."""
        found = self._find(aws, rid)
        if found is None:
            return None
        plain = {
            key: value
            for key, value in found.items()
            if key not in {"Tags", "SuspendedProcesses", "EnabledMetrics"}
        }
        out = self.decode(plain, _NAMES)
        out["tags"] = [
            {
                "key": tag["Key"],
                "value": tag.get("Value", ""),
                "propagateAtLaunch": bool(tag.get("PropagateAtLaunch")),
            }
            for tag in found.get("Tags") or ()
        ]
        out["suspendedProcesses"] = [item["ProcessName"] for item in found.get("SuspendedProcesses") or ()]
        out["enabledMetrics"] = [item["Metric"] for item in found.get("EnabledMetrics") or ()]
        return {key: value for key, value in out.items() if value not in ([], "") or key in state}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change everything but the name in place; start an instance refresh if requested."""
        scaling = aws.client("autoscaling")
        if changed - _LOCAL - _ONLY_AT_CREATION:
            keep = frozenset(new) - changed - {"name"}
            parameters = self._parameters(
                aws, "UpdateAutoScalingGroup", new, _LOCAL | _ONLY_AT_CREATION | keep
            )
            scaling.update_auto_scaling_group(**parameters)
        self._attach(scaling, rid, old, new, changed)
        self._after(aws, rid, old, new)
        if "tags" in changed:
            self._retag(scaling, rid, old, new)
        refresh = new.get("instanceRefresh")
        launching = {
            "launchTemplate",
            "launchConfiguration",
            "mixedInstancesPolicy",
            *((refresh or {}).get("triggers") or ()),
        }
        if refresh and changed & launching:
            parameters = only(refresh, "strategy", "preferences")
            aws.send("autoscaling", "StartInstanceRefresh", parameters, None, AutoScalingGroupName=rid)

    @staticmethod
    def _attach(scaling: Any, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        if "targetGroupArns" not in changed:
            return
        before, after = set(old.get("targetGroupArns") or ()), set(new.get("targetGroupArns") or ())
        of = {"AutoScalingGroupName": rid}
        if before - after:
            scaling.detach_load_balancer_target_groups(**of, TargetGroupARNs=sorted(before - after))
        if after - before:
            scaling.attach_load_balancer_target_groups(**of, TargetGroupARNs=sorted(after - before))

    @staticmethod
    def _retag(scaling: Any, rid: str, old: Props, new: Props) -> None:
        kept = {tag["key"] for tag in new.get("tags") or ()}
        gone = [tag for tag in old.get("tags") or () if tag["key"] not in kept]
        if gone:
            scaling.delete_tags(Tags=_tags(rid, {"tags": gone}))
        if new.get("tags"):
            scaling.create_or_update_tags(Tags=_tags(rid, new))

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Scale to zero, then delete; `forceDelete` skips the scaling."""
        scaling, found = aws.client("autoscaling"), self._find(aws, rid)
        if found is None:
            return
        if state.get("warmPool"):
            scaling.delete_warm_pool(
                AutoScalingGroupName=rid, ForceDelete=bool(state.get("forceDeleteWarmPool"))
            )
        if not state.get("forceDelete") and found.get("Instances"):
            scaling.update_auto_scaling_group(
                AutoScalingGroupName=rid, MinSize=0, MaxSize=0, DesiredCapacity=0
            )
            until_gone(
                lambda: ((self._find(aws, rid) or {}).get("Instances") or None), timeout_s=_TIMEOUT_S,
                what=f"the end of the instances of {rid}",
            )  # fmt: skip
        settle(
            lambda: scaling.delete_auto_scaling_group(AutoScalingGroupName=rid,
            ForceDelete=bool(state.get("forceDelete"))),
            codes="ResourceInUse|ScalingActivityInProgress", timeout_s=30.0,
        )  # fmt: skip
        until_gone(lambda: self._find(aws, rid), timeout_s=_TIMEOUT_S, what=f"the deletion of {rid}")


def _tags(rid: str, inputs: Props) -> list[dict[str, Any]]:
    return [
        {
            "ResourceId": rid, "ResourceType": "auto-scaling-group", "Key": tag["key"],
            "Value": str(tag["value"]),
            "PropagateAtLaunch": tag.get("propagateAtLaunch") in (True, "true"),
        }
        for tag in inputs.get("tags") or ()
    ]  # fmt: skip


HANDLERS = (Group(),)
