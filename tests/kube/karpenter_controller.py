"""A real Karpenter beside a real API server and an emulated AWS, and what its tests ask of both.

It runs outside of the cluster, with the settings and the rights of its Deployment. There is no scheduler:
`wait_for_node` marks a pod as one that none has room for.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import isolated_environ
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.conftest import Checkout
from tests.kube.admission import refusal_of
from tests.kube.cluster import ApiServerProcess, free_ports
from tests.kube.cluster_programs import program

ENVIRONMENT, REGION = "sandbox", "us-east-1"
CLUSTER = f"krp-{ENVIRONMENT}-use1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS, CLAIMS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
PODS = "/api/v1/namespaces/default/pods"
GPU = "nvidia.com/gpu"
_LIMIT_S = 600.0

ORDER = (
    *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"),
    *("EC2NodeClass", "NodePool"),
)


def wait(what: str, probe: Callable[[], bool], tail: Callable[[], str]) -> None:
    """Wait until the probe is true; fail with `tail`."""
    deadline = time.monotonic() + _LIMIT_S
    while not probe():
        assert time.monotonic() < deadline, f"not {what}:\n{tail()}"
        time.sleep(0.5)


def items(rest: Rest, path: str) -> dict[str, dict[str, Any]]:
    """The objects of a kind by their names."""
    return {item["metadata"]["name"]: item for item in rest.call("GET", path)["items"]}


def served(rest: Rest, path: str) -> bool:
    """Whether the server has a kind."""
    try:
        rest.call("GET", path)
    except ApiError:
        return False
    return True


def path_of(item: Mapping[str, Any]) -> str:
    """The path at which an object is created."""
    version, kind = item["apiVersion"], item["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = item["metadata"].get("namespace")
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def refusal(rest: Rest, path: str, item: Mapping[str, Any]) -> str:
    """What the server says against an object; empty if it accepts it. It is not kept."""
    metadata = {"name": "tried", "labels": item["metadata"].get("labels", {})}
    return refusal_of(rest, path, {**item, "metadata": metadata}, 422)


def changed(item: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """The object with other fields of its specification."""
    return {**item, "spec": {**item["spec"], **spec}}


def ready(item: Mapping[str, Any]) -> str:
    """The status of the condition Ready; empty before there is one."""
    found = item.get("status", {}).get("conditions", ())
    return next((each["status"] for each in found if each["type"] == "Ready"), "")


def claims(rest: Rest, pool: str) -> list[dict[str, Any]]:
    """The NodeClaims of a pool."""
    found = items(rest, CLAIMS).values()
    return [each for each in found if each["metadata"]["labels"]["karpenter.sh/nodepool"] == pool]


def launched(rest: Rest, pool: str) -> list[dict[str, Any]]:
    """Those of them that have an instance."""
    return [each for each in claims(rest, pool) if each.get("status", {}).get("providerID")]


def wait_for_node(rest: Rest, name: str, group: str, requests: Mapping[str, str]) -> None:
    """Create a pod that the scheduler has found no node for."""
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": dict(requests), "limits": dict(requests)},
    }
    tolerations = [{"key": key, "operator": "Exists"} for key in (GPU, "dedicated")]
    spec = {
        "containers": [container],
        "nodeSelector": {"gpufleet.io/node-group": group},
        "tolerations": tolerations,
    }
    rest.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    rest.call(
        "PATCH",
        f"{PODS}/{name}/status",
        {"status": {"conditions": [condition]}},
        content_type="application/strategic-merge-patch+json",
    )


class Controller:
    """The real program with the settings and the rights of its Deployment."""

    def __init__(self, checkout: Checkout, server: ApiServerProcess, rest: Rest, folder: Path) -> None:
        self._log, self.rest = folder / "karpenter.log", rest
        base = "/api/v1/namespaces/kube-system/serviceaccounts/karpenter"
        deployment = self.rest.call("GET", "/apis/apps/v1/namespaces/kube-system/deployments/karpenter")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        settings = {each["name"]: each["value"] for each in container["env"]}
        token = self.rest.call("POST", f"{base}/token", {"spec": {}})["status"]["token"]
        own = server.folder / "karpenter-kubeconfig"
        own.write_text(yaml.safe_dump(server.config({"token": token})))
        metrics, health = free_ports(2)
        cloud = isolated_environ(daemon.ensure(checkout.root / ".gpufleet" / "sandbox"))
        self.keys = {
            "endpoint_url": cloud["AWS_ENDPOINT_URL"],
            "aws_access_key_id": cloud["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": cloud["AWS_SECRET_ACCESS_KEY"],
        }
        outside = {
            "KUBECONFIG": str(own),
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
            "LOG_LEVEL": "debug",
            # The emulated AWS judges no rights, which is what Karpenter's dry runs ask.
            "DISABLE_DRY_RUN": "true",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", str(program("karpenter"))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.defpath, **cloud, **settings, **outside},
            )

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])

    def waits(self, what: str, probe: Callable[[], bool]) -> None:
        """Wait until the probe is true, or the program has ended."""
        wait(what, lambda: self._process.poll() is not None or probe(), self.tail)
        assert self._process.poll() is None, self.tail()
