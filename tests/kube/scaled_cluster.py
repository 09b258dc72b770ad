"""A cluster of `gpufleet up` whose nodes a real Cluster Autoscaler adds and ends.

The API server is real, AWS is emulated, and `join` is what EC2 and a kubelet do: a Node object for each
instance of an Auto Scaling group. There is no scheduler: `wait_for_node` marks a pod as one that none has
room for.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import isolated_environ
from gpufleet.lab.kubernetes.rest import Rest
from tests.conftest import Checkout
from tests.kube.cluster import ApiServerProcess, free_ports

PROGRAM_VARIABLE = "GPUFLEET_TEST_CLUSTER_AUTOSCALER"
PODS = "/api/v1/namespaces/default/pods"
NAME = "cluster-autoscaler"
ENVIRONMENT = "sandbox"
REGION = "us-east-1"
CLUSTER = f"flt-{ENVIRONMENT}-use1"
QUICK = (
    "--scan-interval=1s",
    "--scale-down-unneeded-time=4s",
    "--scale-down-delay-after-add=4s",
    "--aws-use-static-instance-list=true",
)
"""What the test changes: the autoscaler's pace, and a list of types that no emulated AWS has to return."""

_POLL_S = 0.5
_LIMIT_S = 600.0
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


def autoscaler_program() -> str:
    """The autoscaler's program; skips the test where the variable names none."""
    named = os.environ.get(PROGRAM_VARIABLE)
    if not named:
        pytest.skip("GPUFLEET_TEST_CLUSTER_AUTOSCALER names no program")
    return named


def _cloud_config(url: str) -> str:
    """A configuration that sends calls of AWS to `url`: the program does not read AWS_ENDPOINT_URL."""
    lines: list[str] = []
    for service in ("autoscaling", "ec2", "eks"):
        lines += [
            f'[ServiceOverride "{service}"]',
            *(f"Service = {service}", f"Region = {REGION}", f"URL = {url}"),
            *(f"SigningRegion = {REGION}", f"SigningName = {service}"),
        ]
    return "\n".join([*lines, ""])


@dataclass
class ScaledCluster:
    """The cluster after `up`: its API, the emulated AWS, and its node groups by their names in the fleet file
    (`sweep-fallback` for the fallback of `sweep`)."""

    checkout: Checkout
    server: ApiServerProcess
    rest: Rest = field(init=False)
    environ: dict[str, str] = field(init=False)
    groups: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        endpoint = daemon.ensure(self.checkout.root / ".gpufleet" / "sandbox")
        self.rest, self.environ = self.server.rest(), isolated_environ(endpoint)
        self.eks, self.scaling = self.client("eks"), self.client("autoscaling")
        found = self.eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"]
        self.groups = {
            re.sub(r"-[0-9a-f]{7}$", "", name.removeprefix(f"{CLUSTER}-")): self.described(name)
            for name in found
        }

    def client(self, service: str) -> Any:
        """A client of the emulated AWS."""
        keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        access, secret = (self.environ[key] for key in keys)
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.environ["AWS_ENDPOINT_URL"],
            aws_access_key_id=access,
            aws_secret_access_key=secret,
        )

    def described(self, name: str) -> Any:
        """EKS's description of a node group, by its name in AWS."""
        return self.eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)["nodegroup"]

    def scaling_group(self, group: str) -> Any:
        """The Auto Scaling group of a node group."""
        (own,) = self.groups[group]["resources"]["autoScalingGroups"]
        (found,) = self.scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[own["name"]])[
            "AutoScalingGroups"
        ]
        return found

    def sizes(self) -> dict[str, int]:
        """How many nodes each group should have."""
        return {name: int(self.scaling_group(name)["DesiredCapacity"]) for name in self.groups}

    def join(self, group: str, capacity: Mapping[str, str]) -> list[str]:
        """Make a ready Node of each instance of the group that has none; return the names of the new ones."""
        made = []
        for instance in self.scaling_group(group)["Instances"]:
            identity, zone = instance["InstanceId"], instance["AvailabilityZone"]
            if self.rest.find(f"/api/v1/nodes/{identity}"):
                continue
            described = self.groups[group]
            taints = [
                {"key": each["key"], "value": each.get("value", ""), "effect": _EFFECTS[each["effect"]]}
                for each in described.get("taints", [])
            ]
            node = {
                "metadata": {
                    "name": identity,
                    "labels": {**described["labels"], "topology.kubernetes.io/zone": zone},
                },
                "spec": {"providerID": f"aws:///{zone}/{identity}", "taints": taints},
            }
            self.rest.call("POST", "/api/v1/nodes", node)
            self.report(identity, capacity)
            made.append(identity)
        return made

    def report(self, node: str, capacity: Mapping[str, str]) -> None:
        """Write a node's status, as its kubelet does once device plugins have registered."""
        found = self.rest.call("GET", f"/api/v1/nodes/{node}")
        # The API server taints a new node until a controller sees it ready: none runs here.
        found["spec"]["taints"] = [
            each
            for each in found["spec"].get("taints", [])
            if not each["key"].startswith("node.kubernetes.io/")
        ]
        found = self.rest.call("PUT", f"/api/v1/nodes/{node}", found)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        held = {"pods": "110", **capacity}
        found["status"] = {"capacity": held, "allocatable": held, "conditions": [ready]}
        self.rest.call("PUT", f"/api/v1/nodes/{node}/status", found)

    def wait_for_node(self, name: str, requests: Mapping[str, str], **spec: Any) -> None:
        """Create a pod that the scheduler has found no node for."""
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": dict(requests), "limits": dict(requests)},
        }
        pod = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        self.rest.call("POST", PODS, pod)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        self.rest.call(
            "PATCH",
            f"{PODS}/{name}/status",
            {"status": {"conditions": [condition]}},
            content_type="application/strategic-merge-patch+json",
        )

    def refused(self, pod: str) -> str:
        """What the autoscaler says at a pod for which it adds no node; empty before it has decided."""
        found = self.rest.call(
            "GET",
            "/api/v1/namespaces/default/events",
            query={"fieldSelector": f"involvedObject.name={pod},reason=NotTriggerScaleUp"},
        )
        return " ".join(each["message"] for each in found["items"])

    def run_on(self, name: str, node: str) -> None:
        """Bind a pod to a node, as the scheduler does."""
        binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self.rest.call("POST", f"{PODS}/{name}/binding", binding)

    def finish(self, name: str) -> None:
        """Delete a pod at once: no kubelet confirms that it has ended."""
        self.rest.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})


class Autoscaler:
    """The real program with the flags, the environment and the rights of its Deployment, and `QUICK`."""

    def __init__(self, cluster: ScaledCluster, folder: Path) -> None:
        self._cluster, self._log = cluster, folder / "autoscaler.log"
        rest = cluster.rest
        deployment = rest.call("GET", f"/apis/apps/v1/namespaces/kube-system/deployments/{NAME}")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        environ = {each["name"]: each["value"] for each in container["env"]}
        token = rest.call(
            "POST", f"/api/v1/namespaces/kube-system/serviceaccounts/{NAME}/token", {"spec": {}}
        )
        # Beside the certificate of the authority that it names.
        own = cluster.server.folder / "autoscaler-kubeconfig"
        own.write_text(yaml.safe_dump(cluster.server.config({"token": token["status"]["token"]})))
        (port,) = free_ports(1)
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        cloud = folder / "cloud.ini"
        cloud.write_text(_cloud_config(cluster.environ["AWS_ENDPOINT_URL"]))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        "setpriv",
                        "--pdeathsig",
                        "KILL",
                        autoscaler_program(),
                        *container["command"][1:],
                        *QUICK,
                    ),
                    *(
                        "--v=4",
                        f"--kubeconfig={own}",
                        f"--address=127.0.0.1:{port}",
                        f"--cloud-config={cloud}",
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.defpath, **cluster.environ, **environ},
            )

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.splitlines()[-40:])

    def loops(self) -> int:
        """How many times it has looked at the whole cluster."""
        return self.log.count("Starting main loop")

    def waits(self, probe: Callable[[], bool], what: str) -> None:
        """Wait until the probe is true; fail with the end of the log, at once if the program has ended."""
        deadline = time.monotonic() + _LIMIT_S
        while not probe():
            ended = self._process.poll() is not None
            assert not ended and time.monotonic() < deadline, f"not {what}:\n{self.tail()}"
            time.sleep(_POLL_S)

    def settle(self, loops: int = 8) -> None:
        """Let it look at the cluster some times more."""
        last = self.loops() + loops
        self.waits(lambda: self.loops() >= last, f"{loops} loops further")

    def registered(self) -> set[str]:
        """The Auto Scaling groups that it has found."""
        return set(re.findall(r"Registering ASG (\S+)", self.log))

    def aws_calls(self) -> set[str]:
        """The operations of AWS that it has called, by its metrics."""
        with urllib.request.urlopen(self._metrics, timeout=30) as answer:
            text = answer.read().decode()
        found = re.findall(r'cluster_autoscaler_aws_request_duration_seconds_count\{endpoint="(\w+)"', text)
        return {each.removesuffix("Pages") for each in found}
