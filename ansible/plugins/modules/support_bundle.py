#!/usr/bin/python
"""Support data of a host: logs, versions and configuration, without secrets and of limited size."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_bundle
short_description: Packs a host's logs, versions and configuration for support
description:
  - Reads journals of the units that gpufleet and its packages run, kernel messages, logs of Slurm and of
    the GPUs'
    software, versions, and configuration. Commands that hang time out.
  - Removes secrets, by known values (munge key, database
    password) and
    by patterns. Files with only secrets are not read.
  - Long texts keep their end. The index names everything that exceeds the limit.
  - Writes only the archive, readable by root; M(gpufleet.rack.support_join) combines those of all
    hosts.
options:
  path:
    description: Path of the archive (tar, gzip).
    type: path
    required: true
  since_h:
    description: Hours of logs.
    type: int
    default: 24
  limit_mib:
    description: Maximum MiB of all texts before compression.
    type: int
    default: 24
  timeout_s:
    description: Time limit in seconds of each command.
    type: int
    default: 30
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Pack support data
  gpufleet.rack.support_bundle:
    path: /var/tmp/gpufleet-support.tar.gz
    since_h: 48
"""

RETURN = r"""
size:
  description: Bytes of the archive.
  type: int
  returned: success
left_out:
  description: Texts that were left out, with the reason.
  type: dict
  returned: success
"""

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.redaction import forms, redact

INDEX = "index.json"
# Keep the end of a long text, and mark the cut.
LONGEST = 4 << 20
UNITS = (
    *("slurmctld*", "slurmdbd*", "slurmd*", "slurm-*", "munge*", "mariadb*", "nvidia-*", "dcgm*", "opensm*"),
    *("gpufleet-*", "chrony*", "nftables*", "containerd*", "kubelet*", "etcd*", "prometheus*", "openibd*"),
)
COMMANDS: dict[str, list[str]] = {
    "system/uname": ["uname", "-a"],
    "system/uptime": ["uptime"],
    "system/memory": ["free", "-m"],
    "system/disks": ["df", "-h"],
    "system/mounts": ["findmnt", "--raw"],
    "system/addresses": ["ip", "address"],
    "system/routes": ["ip", "route"],
    "system/modules": ["lsmod"],
    "system/devices": ["lspci", "-nn"],
    "system/packages": ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\n"],
    "system/failed-units": ["systemctl", "--no-pager", "--failed"],
    "system/clock": ["chronyc", "tracking"],
    "slurm/config": ["scontrol", "show", "config"],
    "slurm/nodes": ["scontrol", "show", "nodes"],
    "slurm/reasons": ["sinfo", "-R"],
    "slurm/queue": ["squeue", "-a"],
    "slurm/statistics": ["sdiag"],
    "slurm/cluster": ["sacctmgr", "-n", "-P", "show", "cluster"],
    "gpu/summary": ["nvidia-smi"],
    "gpu/query": ["nvidia-smi", "-q"],
    "gpu/topology": ["nvidia-smi", "topo", "-m"],
    "gpu/links": ["nvidia-smi", "nvlink", "--status"],
    "gpu/dcgm": ["dcgmi", "discovery", "-l"],
    "gpu/dcgm-health": ["dcgmi", "health", "-c"],
    "fabric/ibstat": ["ibstat"],
    "fabric/links": ["rdma", "link"],
    "kubernetes/containers": ["crictl", "ps", "-a"],
    "kernel/messages": ["dmesg", "--time-format", "iso"],
}
FILES = (
    *("/etc/os-release", "/proc/cmdline", "/proc/driver/nvidia/version", "/etc/fstab", "/etc/nccl.conf"),
    *(
        "/etc/slurm/*.conf",
        "/etc/default/slurm*",
        "/etc/systemd/system/*.d/gpufleet*.conf",
        "/etc/nftables.conf",
    ),
    *("/etc/modprobe.d/*.conf", "/etc/sysctl.d/*.conf", "/etc/opensm/*.conf", "/etc/enroot/enroot.conf"),
    *(
        "/etc/chrony/chrony.conf",
        "/etc/containerd/config.toml",
        "/var/log/slurm/*.log",
        "/var/log/fabricmanager.log",
    ),
    *(
        "/var/log/nvidia-installer.log",
        "/var/log/opensm*.log",
        "/var/log/dpkg.log",
        "/var/log/apt/history.log",
    ),
    *("/var/lib/gpufleet/health/*.json",),
)
# Files with secrets; a pattern above must not reach them by a link.
NEVER = (
    "/etc/munge",
    "/etc/shadow",
    "/etc/gshadow",
    "/root",
    "/home",
    "/etc/kubernetes",
    "/etc/ssl/private",
    "/etc/ssh",
)


def command(words: list[str], timeout_s: float) -> tuple[int, bytes]:
    """Exit code and output of a command; it and its child processes are ended. 127: not installed."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    environment = {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except OSError:
        return 127, b""
    try:
        output = process.communicate(timeout=timeout_s)[0]
        return process.returncode, output
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            output = process.communicate(timeout=2)[0]
        except subprocess.TimeoutExpired:  # it hangs in the kernel, as drivers can cause
            output = b""
        return 124, output + f"\n[took longer than {timeout_s:.0f} s]\n".encode()


def tail(path: Path) -> bytes:
    """The end of a file. Kernel files have no size."""
    with path.open("rb") as file:
        if (size := os.fstat(file.fileno()).st_size) > LONGEST:
            file.seek(size - LONGEST - 1)
        return file.read(LONGEST + 1)


def cut(text: bytes) -> tuple[bytes, bool]:
    """The end of a text from the start of a line, and whether it was cut."""
    if len(text) <= LONGEST:
        return text, False
    kept = text[-LONGEST:]
    return b"[the beginning was left out]\n" + kept[kept.find(b"\n") + 1 :], True


def files() -> Iterator[Path]:
    """Files to read, each once, without links to secrets."""
    seen = set()
    for pattern in FILES:
        for name in sorted(Path("/").glob(pattern.lstrip("/"))):
            real = name.resolve()
            if real in seen or not real.is_file() or any(real.is_relative_to(each) for each in NEVER):
                continue
            seen.add(real)
            yield name


def texts(since_h: int, timeout_s: int, left_out: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """Name and text of everything, the most important first, since space is limited."""
    journal = ["journalctl", "--no-pager", "-q", "-o", "short-iso", f"--since=-{since_h}h"]
    for name, words in COMMANDS.items():
        code, output = command(words, timeout_s)
        if code == 127:
            left_out[name] = "the host has no such program"
        else:
            yield name, output if code == 0 else output + f"\n[exit code {code}]\n".encode()
    code, output = command(["systemctl", "list-units", "--all", "--no-legend", "--plain", *UNITS], timeout_s)
    units = sorted({line.split()[0] for line in output.decode(errors="replace").splitlines() if line.split()})
    for unit in units if code == 0 else ():
        if unit.endswith((".service", ".mount")):
            yield f"journal/{unit}", command([*journal, "-u", unit], timeout_s)[1]
    for path in files():
        try:
            yield f"files{path}", tail(path)
        except OSError as error:
            left_out[f"files{path}"] = str(error.strerror)
    yield "journal/warnings", command([*journal, "-p", "warning"], timeout_s)[1]


def secrets_here() -> list[str]:
    """Secrets known to the host, in all encodings."""
    values = []
    for path in ("/etc/munge/munge.key", "/etc/slurm/jwt_hs256.key", "/var/lib/slurm/jwt_hs256.key"):
        with suppress(OSError):
            raw = Path(path).read_bytes()
            values.append(raw.hex())
            with suppress(UnicodeDecodeError):
                values.append(raw.decode())
    with suppress(OSError):
        for line in Path("/etc/slurm/slurmdbd.conf").read_text(errors="replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip().lower() in ("storagepass", "authinfo"):
                values.append(value.strip().strip('"'))
    return forms(values)


def pack(target: Path, params: dict[str, Any]) -> dict[str, str]:
    """Write the archive; the texts that were left out."""
    left_out: dict[str, str] = {}
    known = secrets_here()
    limit, used = params["limit_mib"] << 20, 0
    index: dict[str, Any] = {
        "host": os.uname().nodename,
        "created": stamp(),
        "files": {},
        "left_out": left_out,
    }
    with tarfile.open(target, "w:gz", compresslevel=6) as archive:

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(content))

        for name, raw in texts(params["since_h"], params["timeout_s"], left_out):
            # Before cutting: the end of a key would not be recognized.
            text, shorter = cut(redact(raw.decode("utf-8", "replace"), known).encode())
            if used + len(text) > limit:
                left_out[name] = f"no room: {len(text)} bytes, {limit - used} of {limit} are left"
                continue
            used += len(text)
            add(name, text)
            index["files"][name] = {"bytes": len(text), "cut": shorter or len(raw) > LONGEST}
        add(INDEX, json.dumps(index, indent=1).encode())
    return left_out


def stamp() -> str:
    """The current time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Pack; the result for Ansible."""
    if check:
        return {"changed": False, "size": 0, "left_out": {}}
    target = Path(params["path"])
    # A killed run may still be packing: two would write to one file.
    for left in target.parent.glob(f"{target.name}.new-*"):
        left.unlink(missing_ok=True)
    new = target.with_name(f"{target.name}.new-{os.getpid()}")
    try:
        handle = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.close(handle)
        left_out = pack(new, params)
        new.rename(target)
    except OSError as error:
        raise RefusalError(
            f"{new} cannot be written: {error.strerror}. Make room on the host and run again."
        ) from error
    finally:
        new.unlink(missing_ok=True)
    return {"changed": False, "size": target.stat().st_size, "left_out": left_out}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "since_h": {"type": "int", "default": 24},
            "limit_mib": {"type": "int", "default": 24},
            "timeout_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
