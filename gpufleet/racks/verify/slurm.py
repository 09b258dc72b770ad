"""Slurm: munge, accounting, controllers, nodes, login hosts."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result

_OLDEST_BACKUP = dt.timedelta(days=3)
_UNFIT = ("down", "drain", "drng", "fail", "unk", "not_respond", "boot", "maint", "*")


def munge(found: RoleMeasurements) -> Iterator[Result]:
    """A credential can be created and decoded, and only munge can read the key."""
    yield found.active("service", "service", "munge")
    yield found.runs("round trip", "round_trip", remedy="check the key of the cluster and the clock")
    yield found.same("key", "key_mode", "munge 400", remedy=again(found))


def slurm_database(found: RoleMeasurements) -> Iterator[Result]:
    """MariaDB listens only on this host, slurmdbd has the cluster, only slurm can read its password, and
    backups exist."""
    yield found.active("services", "service", "mariadb, slurmdbd, gpufleet-slurm-backup.timer")

    def loopback(text: str) -> Reading:
        listening = [line.split()[3] for line in text.splitlines() if len(line.split()) > 3]
        databases = [address for address in listening if address.endswith(":3306")]
        outside = [each for each in databases if not each.startswith(("127.", "[::1]"))]
        measured = ", ".join(databases) or "nothing"
        if outside:
            return Reading(measured, f"MariaDB listens on {', '.join(outside)}")
        # A site may configure it to listen only on its socket.
        return Reading(measured)

    yield found.expect("listens", "listens", loopback, expected="loopback only", remedy=again(found))
    cluster = str(found.value("cluster"))

    def registered(text: str) -> Reading:
        names = [line.split("|")[0] for line in text.splitlines() if line.strip()]
        return Reading(
            ", ".join(names) or "none", "" if cluster in names else f"slurmdbd has no cluster {cluster}"
        )

    yield found.expect("cluster", "clusters", registered, expected=cluster, remedy="see slurmctld's log")
    yield found.same("password", "secret_mode", "slurm 600", remedy=again(found))

    def backups(text: str) -> Reading:
        made = [item["created"] for item in json.loads(text)]
        if not made:
            # On a new host the timer has not run yet; an alert reports a timer that never runs.
            return Reading("none yet")
        age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(max(made).replace("Z", "+00:00"))
        late = age > _OLDEST_BACKUP
        return Reading(
            f"{len(made)}, the newest of {max(made)}", "the newest backup is too old" if late else ""
        )

    yield found.expect(
        "backups",
        "backups",
        backups,
        expected="none older than three days",
        remedy="journalctl -u gpufleet-slurm-backup",
    )


def _all_up(text: str) -> Reading:
    lines = [line for line in text.splitlines() if "Slurmctld(" in line]
    down = [line for line in lines if "UP" not in line.split()]
    if not lines:
        return Reading("nothing", "no controller is configured")
    return Reading(
        f"{len(lines) - len(down)} of {len(lines)} up", "; ".join(" ".join(line.split()) for line in down)
    )


def _one_up(text: str) -> Reading:
    lines = [line for line in text.splitlines() if "Slurmctld(" in line]
    up = [line for line in lines if "UP" in line.split()]
    return Reading(f"{len(up)} of {len(lines)} up", "" if up else "no controller answers")


def _ping(found: RoleMeasurements, judge: Callable[[str], Reading], expected: str, remedy: str) -> Result:
    return found.expect("controllers", "ping", judge, expected=expected, remedy=remedy, codes=(0, 1))


def slurm_controller(found: RoleMeasurements) -> Iterator[Result]:
    """All controllers answer, every node of the fleet file takes jobs, and teams have their limits."""
    yield found.active("service", "service", "slurmctld")
    yield _ping(found, _all_up, "all up", "systemctl status slurmctld on the host")
    nodes = [item["name"] for item in found.value("nodes", [])]
    gpus = int(found.value("gpus", 0))
    divided = _divided(found.value("mig") or [])

    def ready(text: str) -> Reading:
        states: dict[str, tuple[str, str, str]] = {}
        for line in text.splitlines():
            name, state, gres, reason = line.split("|", 3)
            states[name] = (state, gres, reason)
        wrong = []
        for name in nodes:
            if name not in states:
                wrong.append(f"{name} is unknown to Slurm")
                continue
            state, gres, reason = states[name]
            counts = [int(number) for number in re.findall(r"gpu(?::[^:,()]+)?:(\d+)", gres)]
            if any(word in state.lower() for word in _UNFIT):
                wrong.append(f"{name} is {state} ({reason})")
            elif gpus and sum(counts) != (should := gpus + divided.get(name, 0)):
                wrong.append(f"{name} has {sum(counts)} GPUs in Slurm instead of {should}")
        return Reading(f"{len(nodes) - len(wrong)} of {len(nodes)} nodes", "; ".join(wrong))

    yield found.expect(
        "nodes",
        "nodes",
        ready,
        expected=f"{len(nodes)} nodes",
        remedy="sinfo -R; a node that was drained for a fault is taken back when that is repaired",
    )
    wanted = {item["name"]: int(item["gpus"]) for item in found.value("accounts", [])}

    def limits(text: str) -> Reading:
        there = {}
        for line in text.splitlines():
            account, user, tres, *_ = line.split("|")
            if not user:
                hit = re.search(r"gres/gpu=(\d+)", tres)
                there[account] = int(hit[1]) if hit else None
        wrong = [
            f"account {name} may hold {there.get(name, 'nothing, it is missing')} GPUs instead of {number}"
            for name, number in wanted.items()
            if there.get(name) != number
        ]
        return Reading(f"{len(wanted)} accounts", "; ".join(wrong))

    yield found.expect("accounts", "limits", limits, expected=f"{len(wanted)} accounts", remedy=again(found))


def slurm_cloud(found: RoleMeasurements) -> Iterator[Result]:
    """The service that launches cloud nodes runs, and Slurm has nodes that it can launch."""
    if not found.value("sites"):
        return
    yield found.active("service", "service", "gpufleet-cloud-nodes")

    def nodes(text: str) -> Reading:
        lines = [line for line in text.splitlines() if re.match(r"\S+ +\S*\+cloud\b", line.lower())]
        waiting = sum("gpufleet cloud: " in line for line in lines)
        note = f", {waiting} without capacity" if waiting else ""
        return Reading(f"{len(lines)} nodes{note}", "" if lines else "Slurm has no cloud node")

    yield found.expect("cloud nodes", "nodes", nodes, expected="at least one", remedy=again(found))


def _divided(layouts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many more GPUs a node with divided ones has for Slurm, which counts every instance as one."""
    more: Counter[str] = Counter()
    for item in layouts:
        for node in item["nodes"]:
            more[node] += len(item["gpus"]) * (sum(item["profiles"].values()) - 1)
    return dict(more)


def slurm_node(found: RoleMeasurements) -> Iterator[Result]:
    """slurmd runs, reaches a controller, the node takes jobs with all its GPUs, and ssh needs a job."""
    yield found.active("service", "service", "slurmd")
    yield _ping(found, _one_up, "one up", "see slurm.conf and the network")
    gpus = int(found.value("gpus", 0))
    gpus += sum(sum(profiles.values()) - 1 for profiles in (found.value("mig") or {}).values())

    def state(text: str) -> Reading:
        hit = re.search(r"\bState=(\S+)", text)
        gres = re.search(r"\bGres=(\S+)", text)
        reason = re.search(r"\bReason=(.*?) \[", text)
        if hit is None:
            return Reading("nothing", "Slurm does not list the node")
        if any(word in hit[1].lower() for word in _UNFIT):
            return Reading(hit[1], f"it is {hit[1]}{f' ({reason[1]})' if reason else ''}")
        counts = re.findall(r"gpu(?::[^:,\s(]+)?:(\d+)", gres[1]) if gres else []
        count = sum(int(number) for number in counts)
        problem = f"{count} GPUs in Slurm instead of {gpus}" if gpus and count != gpus else ""
        return Reading(f"{hit[1]}, {count} GPUs", problem)

    yield found.expect("state", "state", state, expected=f"ready, {gpus} GPUs", remedy="sinfo -R")
    if found.value("ssh_requires_job", False):
        yield from _ssh_requires_job(found)


def _ssh_requires_job(found: RoleMeasurements) -> Iterator[Result]:
    """PAM refuses ssh logins of users without a job, and sshd asks PAM."""

    def lines(text: str) -> Reading:
        if text.strip() == "1":
            return Reading("needs a job")
        return Reading(
            "needs no job", "users without a job can log in: /etc/pam.d/sshd has no pam_slurm_adopt"
        )

    yield found.expect("ssh", "ssh", lines, expected="needs a job", remedy=again(found), codes=(0, 1))

    def pam(text: str) -> Reading:
        used = "usepam yes" in text.lower().splitlines()
        return Reading(
            "yes" if used else "no", "" if used else "sshd does not ask PAM, so that logins need no job"
        )

    yield found.expect("sshd", "sshd", pam, expected="yes", remedy="set `UsePAM yes` in /etc/ssh/sshd_config")


def slurm_login(found: RoleMeasurements) -> Iterator[Result]:
    """Slurm's commands reach a controller and show partitions."""
    yield _ping(found, _one_up, "one up", "see slurm.conf and the network")

    def partitions(text: str) -> Reading:
        names = sorted({line.split("|")[0].rstrip("*") for line in text.splitlines() if line.strip()})
        return Reading(", ".join(names) or "none", "" if names else "Slurm shows no partition")

    yield found.expect("partitions", "partitions", partitions, expected="at least one", remedy="sinfo")
