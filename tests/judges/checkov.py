"""checkov in its own environment and without network.

It has no Pulumi framework: it gets resources as Terraform plans (`terraform_plan`). One process
judges many plans separately, since it takes seconds to start.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.resources.stack import Stack
from tests.judges.terraform_plan import terraform_plan

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-checkov" / "bin" / "python"
DRIVER = Path(__file__).with_name("checkov_driver.py")
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """checkov's result of one stack: (check id, Terraform address) of each failed or passed check."""

    failed: frozenset[tuple[str, str]]
    passed: frozenset[tuple[str, str]]

    @property
    def failed_checks(self) -> set[str]:
        """The ids of checks that failed anywhere."""
        return {check for check, _ in self.failed}

    @property
    def checks(self) -> set[str]:
        """The ids of all checks that ran on a resource."""
        return self.failed_checks | {check for check, _ in self.passed}


def judge(stacks: Mapping[str, Stack]) -> dict[str, Verdict]:
    """checkov's verdict on each stack, by the same names. All of its checks run."""
    return judge_plans({name: terraform_plan(stack) for name, stack in stacks.items()})


def judge_plans(plans: Mapping[str, Mapping[str, Any]]) -> dict[str, Verdict]:
    """checkov's verdict on each Terraform plan. Raises RuntimeError with its output when it fails."""
    if not PYTHON.exists():
        raise RuntimeError("checkov is not there: run scripts/setup system (make test does)")
    with tempfile.TemporaryDirectory(prefix="gpufleet-checkov-") as folder:
        files = []
        for index, plan in enumerate(plans.values()):
            file = Path(folder) / f"plan-{index}.json"
            # One line per value, as terraform writes it: checkov reports lines.
            file.write_text(json.dumps(plan, indent=1), encoding="utf-8")
            files.append(str(file))
        answers = _run(files)
    return {
        name: Verdict(
            frozenset((check, where) for check, where in answer["failed"]),
            frozenset((check, where) for check, where in answer["passed"]),
        )
        for name, answer in zip(plans, answers, strict=True)
    }


def _run(files: Sequence[str]) -> list[dict[str, Any]]:
    environ = {
        name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}
    }
    # A proxy on a closed port: any network access fails at once.
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [str(PYTHON), "-I", str(DRIVER)],
        input=json.dumps(files),
        env=environ | nowhere | {"LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"checkov failed:\n{done.stderr[-4000:]}")
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers
