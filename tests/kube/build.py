"""Programs of Kubernetes for the tests, built from their Go module into the checkout's cache.

A module in `releases/` names the release of a minor and, in its go.sum, the hash of every source. An API
server from nothing takes 312 processor seconds, 171 s on two cores with nothing else to do; kubeadm some
four minutes of one processor, less after a server of its minor. Both are kept under `.gpufleet/cache`, by
version and platform. `GPUFLEET_TEST_KUBE_APISERVER` names a binary to use in place of the server of `MINOR`.

Tests ask the programs of one minor. With `GPUFLEET_TEST_KUBERNETES=all` they ask those of the others, too.
A part of kubeadm would not help: its configuration reader has 902 of its 999 packages, and a
program that only knows the fields (375 packages) took 85 s of processor time for one minor, measured on a
busy machine.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tests.programs import ROOT, run_go

RELEASES = Path(__file__).parent / "releases"
CACHE = ROOT / ".gpufleet" / "cache" / "kube"
MINOR = "1.35"
"""The minor whose programs are always tested: the middle one of those that racks run."""
ALL_VARIABLE = "GPUFLEET_TEST_KUBERNETES"
BINARY_VARIABLE = "GPUFLEET_TEST_KUBE_APISERVER"
_BUILD_TIMEOUT_S = 1800
# They are built to answer some hundred requests: without optimization, and with a compiler that collects its
# garbage only when it has much of it, a build takes half of the time (client-go: 92 processor seconds instead
# of 169).
_QUICK = "-N -l -dwarf=false"
_ROOMY = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}


def minors() -> tuple[str, ...]:
    """The minors whose programs this checkout can build."""
    return tuple(sorted(path.parent.name for path in RELEASES.glob("*/go.mod")))


def asked_minors() -> tuple[str, ...]:
    """Minors whose programs are tested in this run."""
    return minors() if os.environ.get(ALL_VARIABLE) == "all" else (MINOR,)


def version(minor: str = MINOR) -> str:
    """The release that a minor's module pins, as `1.35.4`."""
    text = (RELEASES / minor / "go.mod").read_text()
    found = re.search(r"^require k8s\.io/kubernetes v(\S+)$", text, re.MULTILINE)
    assert found, f"releases/{minor}/go.mod does not require k8s.io/kubernetes"
    return found[1]


def not_asked(program: str, minor: str) -> str:
    """Why a program of a minor is not tested in this run; empty if it is."""
    if minor in asked_minors() or _path(program, minor).is_file():
        return ""
    return f"programs of Kubernetes {minor} are not asked: {ALL_VARIABLE}=all asks those of all minors"


def kube_apiserver(minor: str = MINOR) -> Path:
    """A minor's server, built first if need be; one build at a time over all test processes."""
    return _named(minor) or program("kube-apiserver", minor)


def kubeadm(minor: str) -> Path:
    """A minor's kubeadm, built first if need be."""
    return program("kubeadm", minor)


def _named(minor: str) -> Path | None:
    named = os.environ.get(BINARY_VARIABLE)
    return Path(named) if named and minor == MINOR else None


def _path(program: str, minor: str) -> Path:
    """Where a built program is kept."""
    return CACHE / f"{version(minor)}-{os.uname().machine}" / program


def program(name: str, minor: str) -> Path:
    """A minor's program of `k8s.io/kubernetes/cmd`, built first if need be."""
    # A program built from the module needs its version as a flag; kubeadm compares majors and minors.
    major, number = minor.split(".")
    stamps = {"gitVersion": f"v{version(minor)}", "gitMajor": major, "gitMinor": number}
    flags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    return go_program(_path(name, minor), RELEASES / minor, f"k8s.io/kubernetes/cmd/{name}", flags)


def go_program(
    path: Path,
    module: Path,
    package: str,
    flags: str = "",
    *options: str,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """The program `path`, built from a package with the sources that `module` pins.

    One build at a time over all test processes.
    """
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            fresh = path.with_name(f"{path.name}.new")
            done = run_go(
                *("build", "-trimpath", f"-gcflags=all={_QUICK}", "-ldflags", f"-s -w {flags}", *options),
                *("-o", str(fresh), package),
                folder=module,
                timeout_s=_BUILD_TIMEOUT_S,
                environment={**_ROOMY, **(environment or {})},
            )
            assert done.returncode == 0, f"{package} did not build:\n{done.stderr[-3000:]}"
            fresh.replace(path)
    return path
