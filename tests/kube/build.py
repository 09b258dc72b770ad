"""Programs of Kubernetes for the tests, built from their Go module (tests/go_programs.py).

A module in `releases/` names the release of a minor and, in its go.sum, the hash of every source; that of
`MINOR` has most other programs of a cluster, too (programs/README.md). From nothing, kubelet takes 290
processor seconds, the API server after it 90, and all programs of a cluster 1,050.
`GPUFLEET_TEST_KUBE_APISERVER` names a binary to use in place of the server of `MINOR`.

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

HERE = Path(__file__).parent
RELEASES = HERE / "releases"
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
    return pinned(f"releases/{minor}", "k8s.io/kubernetes")


def pinned(folder: str, module: str) -> str:
    """The release of a module that the go.mod in a folder here replaces or requires, without the v."""
    text = (HERE / folder / "go.mod").read_text()
    name = re.escape(module)
    found = re.search(rf"^\s*{name} => {name} v(\S+)", text, re.MULTILINE) or re.search(
        rf"^\s*(?:require )?{name} v(\S+)", text, re.MULTILINE
    )
    assert found, f"{folder}/go.mod does not require {module}"
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
