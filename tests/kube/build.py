"""Programs of Kubernetes for the tests, built from their Go module (tests/go_programs.py).

A module in `releases/` names the release of a minor and, in its go.sum, the hash of every source. An API
server from nothing takes 312 processor seconds, 171 s on two cores with nothing else to do; kubeadm some
four minutes of one processor, less after a server of its minor. `GPUFLEET_TEST_KUBE_APISERVER` names a binary
to use in place of the server of `MINOR`.

Tests ask the programs of one minor. With `GPUFLEET_TEST_KUBERNETES=all` they ask those of the others, too.
A part of kubeadm would not help: its configuration reader has 902 of its 999 packages, and a
program that only knows the fields (375 packages) took 85 s of processor time for one minor, measured on a
busy machine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.go_programs import GoProgram

RELEASES = Path(__file__).parent / "releases"
MINOR = "1.35"
"""The minor whose programs are always tested: the middle one of those that racks run."""
ALL_VARIABLE = "GPUFLEET_TEST_KUBERNETES"
BINARY_VARIABLE = "GPUFLEET_TEST_KUBE_APISERVER"


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
    if minor in asked_minors() or _source(program, minor).path.is_file():
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


def program(name: str, minor: str) -> Path:
    """A minor's program of `k8s.io/kubernetes/cmd`, built first if need be."""
    return _source(name, minor).built()


def _source(name: str, minor: str) -> GoProgram:
    # A program built from the module needs its version as a flag; kubeadm compares majors and minors.
    major, number = minor.split(".")
    stamps = {"gitVersion": f"v{version(minor)}", "gitMajor": major, "gitMinor": number}
    flags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    return GoProgram(name, RELEASES / minor, f"k8s.io/kubernetes/cmd/{name}", flags)
