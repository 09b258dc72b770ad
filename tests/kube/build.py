"""A kube-apiserver for the tests, built from its Go module into the checkout's cache.

The module in `apiserver/` names the version and, in its go.sum, the hash of every source. A build
from nothing takes 312 processor seconds, 171 s on two cores with nothing else to do, and is kept under
`.gpufleet/cache`, by version and platform.
`GPUFLEET_TEST_KUBE_APISERVER` names a binary to use instead.

kubeadm of each minor that racks run is built from the modules in `kubeadm/`, some four minutes of one
processor for each from nothing. That of the API server's minor is built whenever it is needed; the others
where `GPUFLEET_TEST_KUBEADM=all` asks for them, or where the cache has them. Less than kubeadm is no way out:
its reader of configurations alone is 902 of its 999 packages, and a program that only knows the fields (375
packages) took 85 s of processor time for one minor, measured on a busy machine.
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
KUBEADM = Path(__file__).parent / "kubeadm"
KUBEADM_VARIABLE = "GPUFLEET_TEST_KUBEADM"
BINARY_VARIABLE = "GPUFLEET_TEST_KUBE_APISERVER"
_BUILD_TIMEOUT_S = 1800
# It is built to answer some hundred requests: without optimization, and with a compiler that collects its
# garbage only when it has much of it, a build takes half of the time (client-go: 92 processor seconds instead
# of 169).
_QUICK = "-N -l -dwarf=false"
_ROOMY = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}


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
    return _built(binary(), MODULE, version(), PACKAGE)


def _built(path: Path, module: Path, release: str, package: str) -> Path:
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            fresh = path.with_suffix(".new")
            # A program built from the module does not know its version unless it is told.
            stamp = f"-X k8s.io/component-base/version.gitVersion=v{release}"
            done = _go(
                *("build", "-trimpath", f"-gcflags=all={_QUICK}", "-ldflags", f"-s -w {stamp}"),
                *("-o", str(fresh), package),
                module=module,
            )
            assert done.returncode == 0, f"{path.name} {release} did not build:\n{done.stderr[-3000:]}"
            fresh.replace(path)
    return path


def kubeadm_minors() -> tuple[str, ...]:
    """The minors whose kubeadm this checkout can build."""
    return tuple(sorted(path.parent.name for path in KUBEADM.glob("*/go.mod")))


def kubeadm_version(minor: str) -> str:
    """The release that a minor's module pins, as `1.35.4`."""
    text = (KUBEADM / minor / "go.mod").read_text()
    found = re.search(r"^require k8s\.io/kubernetes v(\S+)$", text, re.MULTILINE)
    assert found, f"kubeadm/{minor}/go.mod does not require k8s.io/kubernetes"
    return found[1]


def kubeadm_path(minor: str) -> Path:
    """Where the built kubeadm of a minor is kept."""
    folder = f"kubeadm-{kubeadm_version(minor)}-{os.uname().machine}"
    return ROOT / ".gpufleet" / "cache" / "kube" / folder / "kubeadm"


def missing_kubeadm(minor: str) -> str:
    """Why there is no kubeadm of a minor here, in words; empty where there is one or it can be built."""
    if kubeadm_path(minor).is_file():
        return ""
    if not version().startswith(f"{minor}.") and os.environ.get(KUBEADM_VARIABLE) != "all":
        return f"kubeadm {kubeadm_version(minor)} is not built ({KUBEADM_VARIABLE}=all builds it)"
    if shutil.which("go") is None:
        return f"no Go on PATH to build kubeadm {kubeadm_version(minor)} with"
    return ""


def kubeadm(minor: str) -> Path:
    """A minor's kubeadm, built first if need be; one build at a time over all test processes."""
    return _built(
        kubeadm_path(minor), KUBEADM / minor, kubeadm_version(minor), "k8s.io/kubernetes/cmd/kubeadm"
    )


def _go(*arguments: str, module: Path = MODULE) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    environment |= _ROOMY
    return subprocess.run(
        ["go", *arguments],
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
