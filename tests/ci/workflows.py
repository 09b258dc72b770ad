"""The CI templates as data: workflows, their jobs, and the scripts of their steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / "ci-templates" / "github"
GITLAB = ROOT / "ci-templates" / "gitlab" / ".gitlab-ci.yml"
WORKFLOWS = sorted((GITHUB / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[str, Any]:
    """A workflow of ci-templates/github. YAML 1.1 reads the key `on` as true."""
    loaded: dict[Any, Any] = yaml.safe_load((GITHUB / ".github" / "workflows" / f"{name}.yml").read_text())
    return {("on" if key is True else key): value for key, value in loaded.items()}


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    """A job's steps; a job that calls a workflow has none."""
    return list(job.get("steps", ()))


def all_jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Workflow, name and body of each job."""
    for path in WORKFLOWS:
        for name, job in workflow(path.stem)["jobs"].items():
            yield path.stem, name, job


def gitlab() -> dict[str, Any]:
    """The GitLab template."""
    loaded: dict[str, Any] = yaml.safe_load(GITLAB.read_text())
    return loaded
