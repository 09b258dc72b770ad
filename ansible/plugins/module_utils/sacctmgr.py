"""Contents of Slurm accounting, from sacctmgr."""

from __future__ import annotations

import subprocess
from typing import Any

GPU = "gres/gpu"
State = dict[str, Any]


class SilentError(Exception):
    """Accounting does not answer, or does not know the cluster yet."""


def sacctmgr(*words: str) -> str:
    """The output of sacctmgr."""
    try:
        done = subprocess.run(
            ["sacctmgr", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SilentError(str(error)) from error
    if done.returncode:
        output = (done.stderr.strip() + "\n" + done.stdout.strip()).strip()
        raise SilentError(f"sacctmgr {' '.join(words)}: {output[-600:]}")
    return done.stdout


def table(what: str, fields: str, *conditions: str) -> list[dict[str, str]]:
    """Rows of `sacctmgr show`."""
    names = fields.split(",")
    text = sacctmgr("-n", "-P", "show", what, *conditions, f"format={fields}")
    return [dict(zip(names, line.split("|"), strict=True)) for line in text.splitlines() if line]


def gpus_of(tres: str) -> int:
    """GPUs in a list of TRES limits; -1 without a limit."""
    limits = dict(item.split("=", 1) for item in tres.split(",") if "=" in item)
    return int(limits.get(GPU, -1))


def minutes_of(text: str) -> int:
    """Minutes of `[days-]hours:minutes:seconds`; 0 for no limit."""
    if not text:
        return 0
    days, _, clock = text.rpartition("-")
    hours, minutes, _seconds = (int(part) for part in clock.split(":"))
    return (int(days or 0) * 24 + hours) * 60 + minutes


def words_of(text: str) -> list[str]:
    """A list as sacctmgr shows it, sorted."""
    return sorted(part for part in text.split(",") if part)


def read(cluster: str) -> State:
    """Accounting: QOS and accounts by name, (account, user) pairs, and the default account by user."""
    if [cluster] not in [list(row.values()) for row in table("cluster", "Cluster")]:
        raise SilentError(f"cluster {cluster} is not known to accounting yet")
    if not any(row == {"Type": "gres", "Name": "gpu"} for row in table("tres", "Type,Name")):
        raise SilentError(f"accounting has no {GPU} yet: slurmctld has not registered with it")
    qos = {
        row["Name"]: {
            "priority": int(row["Priority"] or 0),
            "preempts": words_of(row["Preempt"]),
            "max_gpus_per_user": gpus_of(row["MaxTRESPU"]),
            "max_minutes": minutes_of(row["MaxWall"]),
        }
        for row in table("qos", "Name,Priority,Preempt,MaxTRESPU,MaxWall")
    }
    accounts, users = {}, set()
    for row in table("assoc", "Account,User,GrpTRES,DefaultQOS,QOS", f"cluster={cluster}"):
        if row["User"]:
            users.add((row["Account"], row["User"]))
        else:
            accounts[row["Account"]] = {
                "gpus": gpus_of(row["GrpTRES"]),
                "default": row["DefaultQOS"],
                "qos": words_of(row["QOS"]),
            }
    # With their associations: the default account of a user is another one in each cluster.
    of_cluster = ("withassoc", f"cluster={cluster}")
    defaults = {
        row["User"]: row["DefaultAccount"] for row in table("user", "User,DefaultAccount", *of_cluster)
    }
    return {"qos": qos, "accounts": accounts, "users": users, "defaults": defaults}
