"""Run the scripts of a workflow's job as a runner does, with stand-ins only for the service."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.ci.workflows import steps, workflow

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


class Runner:
    """A runner with a workspace and a temporary folder. `tools` holds stand-ins, first on PATH."""

    def __init__(self, workspace: Path, temp: Path, known: Mapping[str, str], env: Mapping[str, str]) -> None:
        self.workspace = workspace
        self.temp = temp
        self.tools = temp / "tools"
        self.tools.mkdir(parents=True, exist_ok=True)
        self.summary = temp / "summary.md"
        self._known = known
        self._env = dict(env)

    def tool(self, name: str, script: str) -> None:
        """Put a stand-in on PATH."""
        path = self.tools / name
        path.write_text(script)
        path.chmod(0o755)

    def step(self, file: str, job: str, name: str) -> subprocess.CompletedProcess[str]:
        """Run a step of a job by its name, with bash as the workflow says it."""
        flow = workflow(file)
        [step] = [each for each in steps(flow["jobs"][job]) if each.get("name") == name]
        assert flow["defaults"]["run"]["shell"] == "bash"
        given = {key: self._value(str(value)) for key, value in step.get("env", {}).items()}
        script = self.temp / "step.sh"
        script.write_text(self._value(step["run"]))
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace,
            env={**self._base(), **given},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def _base(self) -> dict[str, str]:
        return {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(self.temp),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            **self._env,
        }

    def _value(self, text: str) -> str:
        def replaced(found: re.Match[str]) -> str:
            assert found[1] in self._known, f"an expression that the test does not know: {found[1]}"
            return self._known[found[1]]

        return _EXPRESSION.sub(replaced, text)


def done(result: Any) -> str:
    """Output of a step for a failed assertion."""
    return f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
