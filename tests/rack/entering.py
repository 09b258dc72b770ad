"""Commands on a rack's host without a login: in the namespaces of the host, as its root.

A login by ssh and sudo costs a tenth of a second of a processor here and on the host, thousands of
times. Tests of logins use real ones.
"""

from __future__ import annotations

from pathlib import Path

from gpufleet.lab.rack import Rack, cgroups

_SPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
# Environment as set by sudo.
_ENVIRONMENT = (
    *("HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash"),
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)
# Limits of a login, not of the user that runs the tests.
_LIMITS = ("prlimit", "--nofile=1024:")


def enter_command(rack: Rack, host: str, *words: str) -> list[str] | None:
    """The command line that runs `words` as root on a host; None where the host does not run."""
    number = rack.site.hosts.index(rack.site.host(host)) + 1
    groups = tuple(f"{group}/h{number}" for group in rack.record.cgroups)
    found = [
        (status["NSpid"].split(), status) for status in map(_status, cgroups.processes(groups)) if status
    ]
    # First processes of the host and of containers in it, which are in more namespaces.
    first = [(len(numbers), numbers[0], status) for numbers, status in found if numbers[-1] == "1"]
    if not first:
        return None
    _, process, status = min(first, key=lambda item: item[0])
    # With at most the capabilities of a host process.
    bounds = [f"--bounding-set={_named(int(status['CapBnd'], 16))}", "--groups=0"]
    enter = ["nsenter", f"--target={process}", *_SPACES]
    return [*enter, "env", "--chdir=/root", "-i", *_ENVIRONMENT, *_LIMITS, "setpriv", *bounds, *words]


def _status(process: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _named(capabilities: int) -> str:
    """A set of capabilities as setpriv takes it."""
    return ",".join(["-all", *(f"+cap_{number}" for number in range(64) if capabilities >> number & 1)])
