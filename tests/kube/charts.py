"""Kueue's chart and definitions from its Go module, and a helm to render charts with.

`programs/` names the versions and, in its go.sum files, the hash of every source. Kueue's module is 5 MB, and
its parts are kept in the user's cache. helm is taken from `GPUFLEET_TEST_HELM` or PATH; building it takes
some minutes of two cores, and so a test run does not: `python -m tests.kube.charts` does, into the cache.
NVIDIA's charts are in no registry that tests may use: `GPUFLEET_TEST_CHARTS` names a folder with
`gpu-operator` and `network-operator`, as their repositories have them below `deployment(s)/`, and with
`nvsentinel`, which is below `distros/kubernetes/`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.go_programs import CACHE
from tests.kube import cluster_programs as programs


def kueue() -> Path:
    """A folder with Kueue's `chart` and its `definitions`."""
    folder = CACHE / f"kueue-{programs.KUEUE}"
    if folder.is_dir():
        return folder
    source = programs.module_folder("programs/kueue", programs.KUEUE_MODULE)
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    for part, name in (("charts/kueue", "chart"), ("config/components/crd/bases", "definitions")):
        # The module cache is read-only; copies must be deletable.
        shutil.copytree(source / part, fresh / name, copy_function=shutil.copyfile)
    for path in (fresh, *fresh.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    try:
        fresh.replace(folder)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return folder


def helm() -> str | None:
    """A helm, or None if it is not available."""
    built = programs.SOURCES["helm"].path
    return (
        os.environ.get("GPUFLEET_TEST_HELM")
        or shutil.which("helm")
        or (str(built) if built.is_file() else None)
    )


def nvidia_chart(name: str) -> Path | None:
    """The folder of one of NVIDIA's charts, or None without the variable."""
    folder = os.environ.get("GPUFLEET_TEST_CHARTS")
    found = Path(folder, name) if folder else None
    return found if found is not None and (found / "Chart.yaml").is_file() else None


if __name__ == "__main__":
    programs.program("helm")
