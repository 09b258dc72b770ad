"""Commands on a rack's host without a login: in the namespaces of the host, as its own root.

A login by ssh and sudo costs a tenth of a second of a processor here and as much on the host, some thousand
times. What a login is, tests of logins ask themselves.
"""

from __future__ import annotations

from pathlib import Path

from gpufleet.lab.rack import Rack, cgroups

_SPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
# As sudo leaves it.
_ENVIRONMENT = (
    *("HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash"),
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)
# A login's, and not those of whoever runs the tests.
_LIMITS = ("prlimit", "--nofile=1024:")


def enter_command(rack: Rack, host: str, *words: str) -> list[str] | None:
    """The command line that runs `words` as root on a host; None where the host does not run."""
    number = rack.site.hosts.index(rack.site.host(host)) + 1
    groups = tuple(f"{group}/h{number}" for group in rack.record.cgroups)
    for process in sorted(cgroups.processes(groups)):
        status = _status(process)
        # The first process of the host's own.
        if status.get("NSpid", "").split()[-1:] == ["1"]:
            # No more than a process of the host may do.
            bounds = [f"--bounding-set={_named(int(status['CapBnd'], 16))}", "--groups=0"]
            enter = ["nsenter", f"--target={process}", *_SPACES]
            return [*enter, "env", "--chdir=/root", "-i", *_ENVIRONMENT, *_LIMITS, "setpriv", *bounds, *words]
    return None


def _status(process: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _named(capabilities: int) -> str:
    """A set of capabilities as setpriv takes it."""
    return ",".join(["-all", *(f"+cap_{number}" for number in range(64) if capabilities >> number & 1)])
