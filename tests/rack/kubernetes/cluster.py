"""A Kubernetes cluster on a rack in a box, and what tests ask of it."""

from __future__ import annotations

import base64
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.kube.build import MINOR, minors
from tests.kube.cluster_programs import DEVICE_PLUGIN
from tests.rack.lab import ROOT
from tests.rack.site import Site

FLEET = ROOT / "gpufleet" / "lab" / "rack" / "kubernetes.yaml"
TEAM = "      - { name: research, gpus: 8, priority: normal }\n"
# Each is guaranteed the GPUs of one node, and may borrow those of the other.
TEAMS = """\
      - { name: research, gpus: 16, priority: high }
      - { name: serving, gpus: 16, priority: normal }
"""
ALL = "GPUFLEET_TEST_CLUSTER"
NEXT = minors()[minors().index(MINOR) + 1]
"""The minor that the cluster is upgraded to."""
KEY = "GPUFLEET_SECRET_KUBERNETES_ENCRYPTION_KEY_LAB"
MEMBERS = ("ctl01", "ctl02", "ctl03")
NODES = ("dgx01", "dgx02")
ENDPOINT = "10.90.0.10"
IMAGE = "docker.io/library/busybox:1"
PREPARED = "prepared"
"""The name of the snapshot before the hosts are part of a cluster."""
OF_KUBERNETES = (
    "kubernetes_base",
    "kubernetes_endpoint",
    "kubernetes_control_plane",
    "kubernetes_node",
    "kubernetes_gpu",
)
# What the GPU Operator sets, whose images cannot be had.
DEVICE_PLUGIN_VALUES = """\
runtimeClassName: nvidia
deviceListStrategy: cdi-cri
nvidiaDriverRoot: /
cdi: {nvidiaHookPath: /usr/bin/nvidia-cdi-hook}
securityContext: {privileged: true}
affinity: null
nodeSelector: {gpufleet.io/system: dgx-h100}
nfd: {enabled: false}
gfd: {enabled: false}
"""
_ADMIN = "KUBECONFIG=/etc/kubernetes/admin.conf"
_PKI = "/etc/kubernetes/pki/etcd"
_ETCDCTL = (
    "crictl exec $(crictl ps --quiet --name '^etcd$') etcdctl --endpoints https://127.0.0.1:2379"
    f" --cacert {_PKI}/ca.crt --cert {_PKI}/server.crt --key {_PKI}/server.key"
)
_WAIT_S = 600.0


def of_whole_life() -> bool:
    """Whether this run has the tests that take minutes each."""
    return os.environ.get(ALL) == "all"


def new_key() -> str:
    """A key that encrypts secrets: 32 bytes in base64."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


@dataclass
class Cluster:
    """The site, the seconds of its first run, and the results of its runs."""

    site: Site
    prepared: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    second: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, folder: Path, minors: tuple[str, ...] = ()) -> Cluster:
        """Start the rack with bare hosts. It serves Kubernetes of the fleet file's minor, and of `minors`."""
        fleet = FLEET.read_text()
        assert TEAM in fleet
        return cls(Site.up(folder, fleet.replace(TEAM, TEAMS), known={KEY: new_key()}, minors=minors))

    @classmethod
    def up(cls, folder: Path, minors: tuple[str, ...] = ()) -> Cluster:
        """Start the rack, prepare its hosts, and seal that state: members are replaced from there."""
        made = cls.start(folder, minors)
        made.prepared = made.site.configure(*_without(*OF_KUBERNETES[2:]))
        made.site.lab.seal(PREPARED)
        return made

    def configure(self, *words: str, code: int | None = 0) -> dict[str, Any]:
        """Run the roles of Kubernetes."""
        return self.site.configure("--skip-preflight", *_only(*OF_KUBERNETES), *words, code=code)

    def install_device_plugin(self) -> None:
        """Install NVIDIA's device plugin from its chart."""
        chart = f"http://packages.rack/charts/nvidia-device-plugin-{DEVICE_PLUGIN}.tgz"
        self.site.lab.sh(
            MEMBERS[0],
            f"{_ADMIN} helm install nvidia-device-plugin {chart} -n gpu-operator --wait --values - <<'END'\n"
            f"{DEVICE_PLUGIN_VALUES}END\n",
        )

    def kubectl(self, *words: str, stdin: str = "", on: str = MEMBERS[0], code: int | None = 0) -> str:
        """The output of kubectl as an administrator on a member."""
        quoted = " ".join(f"'{word}'" for word in words)
        text = f" <<'GPUFLEET'\n{stdin}\nGPUFLEET\n" if stdin else "\n"
        return self.site.lab.sh(on, f"{_ADMIN} kubectl {quoted}{text}", code=code)

    def get(self, *words: str, on: str = MEMBERS[0]) -> Any:
        """Objects as kubectl gives them."""
        return json.loads(self.kubectl("get", *words, "-o", "json", on=on))

    def apply(self, *objects: dict[str, Any], on: str = MEMBERS[0]) -> None:
        """Create or change objects."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects), on=on)

    def refusal(self, wanted: dict[str, Any]) -> str:
        """What the cluster says of an object that it does not take."""
        text = json.dumps(wanted)
        done = self.site.lab.sh(
            MEMBERS[0], f"{_ADMIN} kubectl create -f - 2>&1 <<'END' || echo refused\n{text}\nEND\n"
        )
        assert done.endswith("refused\n"), done
        return done

    def etcdctl(self, *words: str, on: str = MEMBERS[0]) -> str:
        """The output of etcdctl in the member's container; bytes that are not text as cat -v shows them."""
        return self.site.lab.sh(on, f"{_ETCDCTL} {' '.join(words)} | cat -v")

    def etcd_members(self, on: str = MEMBERS[0]) -> dict[str, str]:
        """The id of each started member of etcd by its name."""
        rows = [line.split(", ") for line in self.etcdctl("member", "list", on=on).splitlines()]
        return {row[2]: row[0] for row in rows if row[1] == "started"}

    def ready_nodes(self, on: str = MEMBERS[0]) -> set[str]:
        """The names of nodes that are ready."""
        return {
            node["metadata"]["name"]
            for node in self.get("nodes", on=on)["items"]
            if any(
                item["type"] == "Ready" and item["status"] == "True" for item in node["status"]["conditions"]
            )
        }

    def wait(self, what: str, done: Callable[[], Any], timeout_s: float = _WAIT_S) -> Any:
        """The first true value of `done`; fails with `what` and the pods after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if value := done():
                    return value
            except (AssertionError, ValueError) as problem:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what}: {problem}") from problem
            pods = (
                ""
                if time.monotonic() < deadline
                else self.kubectl("get", "pods", "-A", "-o", "wide", code=None)
            )
            assert time.monotonic() < deadline, f"{what}\n{pods}"
            time.sleep(0.5)

    def run_pod(self, pod: dict[str, Any], timeout_s: float = _WAIT_S) -> str:
        """Run a pod to its end; its output. Asserts that it succeeded."""
        name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
        self.apply(pod)

        def phase() -> str:
            found = self.get("pod", name, "-n", namespace)["status"].get("phase", "")
            return found if found in ("Succeeded", "Failed") else ""

        ended = self.wait(f"pod {name} ends", phase, timeout_s)
        logs = self.kubectl("logs", name, "-n", namespace)
        assert ended == "Succeeded", logs
        self.kubectl("delete", "pod", name, "-n", namespace, "--wait=false")
        return logs


def pod_of(name: str, script: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A pod that runs a shell script once, within the baseline of pod security."""
    resources = spec.pop("resources", {})
    labels = spec.pop("labels", {})
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }


def job_of(
    name: str, team: str, *, pods: int = 1, gpus: int = 8, priority: str = "gpufleet-normal"
) -> dict[str, Any]:
    """A job in the team's queue whose pods hold their GPUs until it is deleted."""
    labels = {"kueue.x-k8s.io/priority-class": priority}
    template = pod_of(name, "exec sleep 3600", team, resources={"limits": {"nvidia.com/gpu": str(gpus)}})
    template["spec"]["priorityClassName"] = priority
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": team, "labels": labels},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"metadata": {}, "spec": template["spec"]},
        },
    }


def _only(*roles: str) -> list[str]:
    return [word for role in roles for word in ("--only", role)]


def _without(*roles: str) -> list[str]:
    """Every role of the site but some."""
    everyone = sorted(path.name for path in (ROOT / "ansible" / "roles").iterdir() if path.is_dir())
    return _only(*(name for name in everyone if name not in roles))
