"""Kubernetes: hosts, the virtual address, the control plane, nodes."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result

FEWEST_DAYS = 30
"""Days that certificates have to be good for: half of what the timer renews them before (60 days)."""

_CGROUP2 = "cgroup2fs"


def kubernetes_base(found: RoleMeasurements) -> Iterator[Result]:
    """containerd runs with its runtimes, releases are the channel's, and nothing is swapped out."""
    yield found.active("containerd", "service", "containerd")
    wanted = str(found.value("version"))
    runtime = str(found.value("containerd_version"))

    def versions(text: str) -> Reading:
        there = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        wrong = [
            f"{name} is {there.get(name, 'not installed')} instead of {version}"
            for name, version in (
                *((name, wanted) for name in ("kubelet", "kubeadm", "kubectl")),
                ("containerd.io", runtime),
            )
            if there.get(name, "").partition("-")[0] != version
        ]
        return Reading(f"{there.get('kubelet', 'none')}", "; ".join(wrong))

    yield found.expect(
        "release",
        "versions",
        versions,
        expected=wanted,
        remedy="a cluster's release moves by the playbook upgrade_kubernetes.yml",
        codes=(0, 1),
    )

    def swap(text: str) -> Reading:
        devices = text.split()
        # A container sees the swap of its machine, which is not its own.
        problem = f"{', '.join(devices)} is swap" if devices and not found.container else ""
        return Reading(", ".join(devices) or "none", problem)

    yield found.expect("swap", "swap", swap, expected="none", remedy=again(found))

    def forwards(text: str) -> Reading:
        value = text.partition("=")[2].strip()
        return Reading(value or "nothing", "" if value == "1" else "packets of pods are not passed on")

    yield found.expect("forwarding", "sysctl", forwards, expected="1", remedy=again(found))

    def hierarchy(text: str) -> Reading:
        kind, *settings = text.splitlines()
        fits = kind == _CGROUP2 or bool(settings)
        return Reading(kind, "" if fits else "the host has cgroup v1, which kubelets from 1.35 on refuse")

    yield found.expect(
        "control groups",
        "cgroup",
        hierarchy,
        expected=_CGROUP2,
        remedy="remove systemd.unified_cgroup_hierarchy=0 from the kernel arguments and reboot",
    )

    wanted_runtimes = {"runc", *(["nvidia"] if found.values.get("kubernetes_base_nvidia_runtime") else [])}

    def runtimes(text: str) -> Reading:
        config = json.loads(text)["config"]
        there = set(config["containerd"]["runtimes"])
        missing = ", ".join(sorted(wanted_runtimes - there))
        problem = f"containerd has no runtime {missing}" if missing else ""
        return Reading(
            ", ".join(sorted(there)), problem or ("" if config["enableCDI"] else "CDI is disabled")
        )

    yield found.expect(
        "runtimes",
        "runtimes",
        runtimes,
        expected=", ".join(sorted(wanted_runtimes)),
        remedy="remove files of another version than 2 from /etc/containerd/conf.d, then " + again(found),
    )


def kubernetes_endpoint(found: RoleMeasurements) -> Iterator[Result]:
    """keepalived and haproxy run, and the API answers at the virtual address."""
    yield found.active("services", "service", "keepalived, haproxy")
    address = str(found.value("address"))

    def place(text: str) -> Reading:
        held = [line for line in text.splitlines() if f" {address}/" in line]
        return Reading("holds the address" if held else "another member holds the address")

    yield found.expect("address", "addresses", place, remedy="ip -4 address show")

    def ready(text: str) -> Reading:
        answer = text.strip()
        return Reading(answer, "" if answer == "ok" else f"the API says {answer or 'nothing'}")

    yield found.expect(
        "API", "ready", ready, expected="ok", remedy="journalctl -u keepalived -u haproxy on the members"
    )


def _ready(node: dict[str, Any]) -> bool:
    return any(
        item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions", [])
    )


def kubernetes_control_plane(found: RoleMeasurements) -> Iterator[Result]:
    """The API is ready, every host of the fleet file is a node, secrets are safe and snapshots are taken."""
    yield found.active("services", "service", "kubelet and the timers")
    yield found.runs("API", "ready", remedy="journalctl -u kubelet; crictl ps -a")
    wanted = str(found.value("version"))
    names = [item["name"] for item in found.value("members", [])]
    names += list(found.value("node_labels", {}))

    def nodes(text: str) -> Reading:
        there = {item["metadata"]["name"]: item for item in json.loads(text)["items"]}
        wrong = []
        for name in names:
            node = there.get(name)
            if node is None:
                wrong.append(f"{name} has not joined")
                continue
            release = node["status"]["nodeInfo"]["kubeletVersion"].lstrip("v")
            if not _ready(node):
                wrong.append(f"{name} is not ready")
            elif release != wanted:
                wrong.append(f"{name} runs {release} instead of {wanted}")
            labels = found.value("node_labels", {}).get(name, {})
            lacking = [key for key, value in labels.items() if node["metadata"]["labels"].get(key) != value]
            if lacking:
                wrong.append(f"{name} lacks the labels {', '.join(sorted(lacking))}")
        return Reading(f"{len(names)} nodes", "; ".join(wrong))

    yield found.expect(
        "nodes", "nodes", nodes, expected=f"{len(names)} nodes, {wanted}", remedy="kubectl describe node"
    )

    def certificates(text: str) -> Reading:
        days = {name: int(left) for name, left in json.loads(text).items()}
        name, least = min(days.items(), key=lambda item: item[1])
        soon = f"{name} ends in {least} days, and was not renewed" if least < FEWEST_DAYS else ""
        return Reading(f"{least} days", soon)

    yield found.expect(
        "certificates",
        "certificates",
        certificates,
        expected=f"{FEWEST_DAYS} days or more",
        remedy="journalctl -u gpufleet-kubernetes-certificates",
    )

    def kubelets(text: str) -> Reading:
        served = json.loads(text)
        wrong = [f"{name}: {problem}" for name, problem in served.items() if not isinstance(problem, int)]
        return Reading(f"{len(served) - len(wrong)} of {len(served)} hosts", "; ".join(wrong))

    yield found.expect(
        "kubelet certificates",
        "kubelets",
        kubelets,
        expected="one of the cluster on each host",
        remedy="kubectl get csr; journalctl -u gpufleet-kubelet-certificates",
    )
    every = int(found.value("backup_every_s", 21600))

    def backups(text: str) -> Reading:
        taken = [item["taken"] for item in json.loads(text)]
        if not taken:
            return Reading("none", "there is no snapshot of etcd")
        age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(max(taken).replace("Z", "+00:00"))
        late = age.total_seconds() > 3 * every
        return Reading(
            f"{len(taken)}, the newest of {max(taken)}", "the newest snapshot is too old" if late else ""
        )

    yield found.expect(
        "snapshots",
        "backups",
        backups,
        expected=f"one within {3 * every // 3600} h",
        remedy="journalctl -u gpufleet-etcd-backup",
    )
    yield found.same("encryption key", "secret_mode", "root 600", remedy=again(found))


def kubernetes_node(found: RoleMeasurements) -> Iterator[Result]:
    """The kubelet runs in the channel's release, and the cluster sends pods to the node."""
    yield found.active("kubelet", "service", "kubelet")
    wanted = str(found.value("version"))

    def state(text: str) -> Reading:
        node = json.loads(text)
        release = node["status"]["nodeInfo"]["kubeletVersion"].lstrip("v")
        if not _ready(node):
            return Reading("not ready", "the node is not ready")
        if node.get("spec", {}).get("unschedulable"):
            return Reading("cordoned", "the node is cordoned: it gets no pods")
        return Reading(release, "" if release == wanted else f"it runs {release} instead of {wanted}")

    yield found.expect(
        "node",
        "self",
        state,
        expected=f"ready, {wanted}",
        remedy="kubectl describe node; journalctl -u kubelet",
    )
