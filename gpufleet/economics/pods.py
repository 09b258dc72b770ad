"""GPU-hours of pods: files of `kubectl get pods --all-namespaces -o json`.

Kubernetes keeps pods that ended only until they are deleted, and no utilization: a file has what existed when
it was written. Team is the label `gpufleet.io/team`, or the namespace.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufleet.economics.usage import JobUse
from gpufleet.errors import InputError

COMMAND = "kubectl get pods --all-namespaces -o json"
GPU = "nvidia.com/gpu"
TEAM, PROJECT, EXPERIMENT = "gpufleet.io/team", "gpufleet.io/project", "gpufleet.io/experiment"
_JOB = "batch.kubernetes.io/job-name"


def read_pods(path: Path, site: str, now: dt.datetime) -> list[JobUse]:
    """Return the pods with GPUs, each from its start to its end, or to `now` while it runs."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", remedy="check the path") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}", remedy=f"write it with: {COMMAND}") from None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list) or document.get("kind") not in ("List", "PodList"):
        raise InputError(f"{path} is not a list of pods", remedy=f"write it with: {COMMAND}")
    found = (_pod(item, site, now) for item in items if isinstance(item, dict))
    return [each for each in found if each is not None]


def _pod(pod: Mapping[str, Any], site: str, now: dt.datetime) -> JobUse | None:
    meta, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    gpus = sum(_count(each) for each in spec.get("containers") or ())
    start = _moment(status.get("startTime"))
    if not gpus or start is None:
        return None
    labels = meta.get("labels") or {}
    ends = [
        _moment((each.get("state") or {}).get("terminated", {}).get("finishedAt"))
        for each in status.get("containerStatuses") or ()
    ]
    ended = [each for each in ends if each is not None]
    over = status.get("phase") in ("Succeeded", "Failed") and ended
    end = max(ended) if over else now
    return JobUse(
        id=str(meta.get("uid", "")),
        name=str(meta.get("name", "")),
        team=labels.get(TEAM) or meta.get("namespace", ""),
        project=labels.get(PROJECT, ""),
        experiment=labels.get(EXPERIMENT) or labels.get(_JOB, ""),
        site=site,
        gpu="",
        gpus=gpus,
        hours=max((end - start).total_seconds(), 0.0) / 3600,
        lost=status.get("phase") == "Failed",
        start=start,
    )


def _count(container: Mapping[str, Any]) -> int:
    """Return whole GPUs: for extended resources the request equals the limit."""
    limits = (container.get("resources") or {}).get("limits") or {}
    value = str(limits.get(GPU, 0))
    return int(value) if value.isdigit() else 0


def _moment(text: Any) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
