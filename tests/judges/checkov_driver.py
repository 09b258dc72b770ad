"""Runs in checkov's environment: judges the plan files listed on standard input.

Writes one JSON list with an object for each file: `failed` and `passed` as [check id, address].
"""

from __future__ import annotations

import json
import sys

from checkov.common.runners.runner_registry import RunnerRegistry
from checkov.runner_filter import RunnerFilter
from checkov.terraform.plan_runner import Runner


def verdict(file: str) -> dict[str, list[tuple[str, str]]]:
    """What all checks say of one plan. Raises RuntimeError for a file that checkov cannot read."""
    settings = RunnerFilter(framework=["terraform_plan"])
    (report,) = RunnerRegistry("", settings, Runner()).run(files=[file])
    if report.parsing_errors:
        raise RuntimeError(f"checkov cannot read {report.parsing_errors}")
    return {
        "failed": [(each.check_id, each.resource) for each in report.failed_checks],
        "passed": [(each.check_id, each.resource) for each in report.passed_checks],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([verdict(file) for file in json.load(sys.stdin)]) + "\n")
