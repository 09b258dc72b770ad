"""A kube-apiserver for the tests, built from its Go module into the checkout's cache.

The module in `apiserver/` names the version and, in its go.sum, the hash of every source. A build
takes some four minutes on two cores and is kept under `.gpufleet/cache`, by version and platform.
`GPUFLEET_TEST_KUBE_APISERVER` names a binary to use instead.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = Path(__file__).parent / "apiserver"
PACKAGE = "k8s.io/kubernetes/cmd/kube-apiserver"
BINARY_VARIABLE = "GPUFLEET_TEST_KUBE_APISERVER"
_BUILD_TIMEOUT_S = 1800


def version() -> str:
    """The version that the module pins, as `1.35.4`."""
    found = re.search(r"^require k8s\.io/kubernetes v(\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, "apiserver/go.mod does not require k8s.io/kubernetes"
    return found[1]


def missing() -> str:
    """What this machine lacks for a cluster, in words; empty when nothing."""
    if shutil.which("etcd") is None:
        return "no etcd on PATH (Debian: apt-get install etcd-server)"
    if os.environ.get(BINARY_VARIABLE) or binary().is_file():
        return ""
    if shutil.which("go") is None:
        return f"no Go on PATH to build kube-apiserver {version()} with"
    found = _go("env", "GOVERSION").stdout.strip().removeprefix("go")
    wanted = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert wanted, "apiserver/go.mod does not say which Go it needs"
    if _numbers(found) < _numbers(wanted[1]):
        return f"Go {found} is too old: kube-apiserver {version()} needs {wanted[1]}"
    return ""


def binary() -> Path:
    """Where the built server is kept."""
    named = os.environ.get(BINARY_VARIABLE)
    if named:
        return Path(named)
    return ROOT / ".gpufleet" / "cache" / "kube" / f"{version()}-{os.uname().machine}" / "kube-apiserver"


def kube_apiserver() -> Path:
    """The server's binary, built first if need be; one build at a time over all test processes."""
    path = binary()
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            fresh = path.with_suffix(".new")
            # A server built from the module does not know its version unless it is told.
            stamp = f"-X k8s.io/component-base/version.gitVersion=v{version()}"
            done = _go("build", "-trimpath", "-ldflags", f"-s -w {stamp}", "-o", str(fresh), PACKAGE)
            assert done.returncode == 0, f"kube-apiserver {version()} did not build:\n{done.stderr[-3000:]}"
            fresh.replace(path)
    return path


def _go(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        ["go", *arguments],
        cwd=MODULE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
