"""Kueue's chart and definitions from its Go module, and a helm to render charts with.

The module in `chart_sources/` names the versions and, in its go.sum, the hash of every source. Kueue's
module is 5 MB and is kept under `.gpufleet/cache`. helm is taken from `GPUFLEET_TEST_HELM` or PATH; building
it takes some minutes of two cores, and so a test run does not: `python -m tests.kube.charts` does, once,
into the cache. NVIDIA's charts are in no registry that tests may use: `GPUFLEET_TEST_CHARTS` names a folder
with `gpu-operator` and `network-operator`, as their repositories have them below `deployment(s)/`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from tests.programs import ROOT, run_go

MODULE = Path(__file__).parent / "chart_sources"
KUEUE, HELM = "sigs.k8s.io/kueue", "helm.sh/helm/v4"
_TIMEOUT_S = 3600
_CACHE = ROOT / ".gpufleet" / "cache" / "kube"


def version(module: str) -> str:
    """The version that go.mod pins, without the v."""
    found = re.search(rf"^\s*{re.escape(module)} v(\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, f"chart_sources/go.mod does not require {module}"
    return found[1]


def kueue() -> Path:
    """A folder with Kueue's `chart` and its `definitions`."""
    folder = _CACHE / f"kueue-{version(KUEUE)}"
    if folder.is_dir():
        return folder
    done = run_go("mod", "download", "-json", KUEUE, folder=MODULE, timeout_s=_TIMEOUT_S)
    assert done.returncode == 0, f"Kueue's module could not be had:\n{done.stdout}{done.stderr}"
    source = Path(json.loads(done.stdout)["Dir"])
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
    built = _CACHE / f"helm-{version(HELM)}-{os.uname().machine}"
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
    target = _CACHE / f"helm-{version(HELM)}-{os.uname().machine}"
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ("build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), f"{HELM}/cmd/helm")
    outcome = run_go(*words, folder=MODULE, timeout_s=_TIMEOUT_S)
    raise SystemExit(outcome.stderr or f"built {target}" if outcome.returncode else 0)
