"""The verdict of the base's code on the data of a change that edits both code and data.

A change may edit rules, components, the stack program or the pinned gpufleet, and its own verdict is computed
with them. Therefore the base's gpufleet checks a copy of the base that has only the data of the change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import ExitCode, InputError
from gpufleet.policy.fleet import NOW
from gpufleet.verdict.base_copy import BaseCopy
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.judging import JudgedChanges
from gpufleet.verdict.models import BaseVerdict, BaseViolation
from gpufleet.verdict.request import CheckRequest

_LONGEST = 500
_FIELDS = ("resource", "name", "message", "remedy", "file", "line")


class SecondCheck(Struct, frozen=True):
    """The second check of one request, in the folder `folder`."""

    repository: GitRepository
    base: Revision
    request: CheckRequest
    folder: Path

    def verdict(self, changes: JudgedChanges, now: str) -> BaseVerdict:
        """Return the verdict of the base's code at the time `now`. It never fails: no verdict is a result."""
        try:
            copy = BaseCopy(self.repository, self.base, self.folder / "judge")
            copy.take(changes.data)
        except InputError as error:
            return BaseVerdict("none", reason=f"{error.message}; {error.remedy}")
        return _result(self._run(copy, now))

    def _run(self, copy: BaseCopy, now: str) -> subprocess.CompletedProcess[str]:
        request = self.request
        environment = request.workspace.environment()
        options = ["--base", copy.name(self.base), "--json"]
        if request.jobs:
            jobs = self.folder / "jobs.json"
            jobs.write_text(json.dumps(dict(request.jobs)), encoding="utf-8")
            options += ["--jobs", str(jobs)]
        if request.policy_config is not None:
            options += ["--policy-config", str(request.policy_config)]
        for ref in request.open_changes:
            options += ["--open", self.repository.revision(ref).commit]
        # Bytecode would be changed code of the copy, which has another check of its base.
        env = {**os.environ, NOW: now, "PYTHONDONTWRITEBYTECODE": "1"}
        env.pop("PYTHONPATH", None)
        if (copy.root / "gpufleet" / "__init__.py").is_file():
            env["PYTHONPATH"] = str(copy.root)
        return subprocess.run(  # noqa: S603 - our own interpreter; the environment's name is a folder's name
            [sys.executable, "-P", "-m", "gpufleet.cli.main", "check", environment, *options],
            cwd=copy.root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


def _result(done: subprocess.CompletedProcess[str]) -> BaseVerdict:
    last = (done.stdout.strip().splitlines() or [""])[-1]
    try:
        document: dict[str, Any] = json.loads(last)
        if done.returncode not in (ExitCode.DONE, ExitCode.REFUSED):
            return BaseVerdict("none", reason=_why(document))
        violations = tuple(
            BaseViolation(rule["name"], **{name: each[name] for name in _FIELDS})
            for rule in document["rules"]
            for each in rule["violations"]
            if each["effect"] == "mandatory"
        )
        passed = done.returncode == ExitCode.DONE and document["verdict"] == "pass"
        return BaseVerdict("pass" if passed else "fail", violations)
    except (ValueError, KeyError, TypeError, AttributeError):
        lines = done.stderr.strip().splitlines()
        return BaseVerdict("none", reason=(lines[-1] if lines else f"exit code {done.returncode}")[:_LONGEST])


def _why(document: dict[str, Any]) -> str:
    findings = [each for each in document.get("findings") or () if each.get("severity") == "error"]
    if findings:
        first = findings[0]
        return f"{first['file']}:{first['line']}: {first['message']}"[:_LONGEST]
    return str(document.get("error") or "no reason was given")[:_LONGEST]
