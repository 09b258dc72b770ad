"""A lab for the engines: a program, a provider with a cloud in a folder, and a state."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.engine.api import DiagnosticEvent, Engine, Event, ResourceEvent, RunResult, StackRequest
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.engine.embedded.recovery.search import Answer, Candidates, Finder, ProviderCall
from gpufleet.engine.embedded.resource import ResourceState

HERE = Path(__file__).parent
PROVIDER = (sys.executable, str(HERE / "box_provider.py"))
PREAMBLE = (
    "import pulumi\nfrom pulumi import ResourceOptions as Opts\nfrom boxes import Box, BoxProvider, Group\n"
)


class BoxFinder:
    """Boxes carry their URN as a tag, by which the box cloud finds them."""

    def visibility_delay_s(self, env: Mapping[str, str]) -> float:
        return 0.0

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        return Candidates(tuple(ask("box:index:find", {"urn": wanted.urn})["ids"]))

    def matches(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        return True


FINDERS: dict[str, Finder] = {"box": BoxFinder()}


class Lab:
    """One project in a folder of its own. `run` runs a verb and keeps its events."""

    def __init__(self, folder: Path, engine: Engine | None = None, stack: str = "dev") -> None:
        self.folder = folder
        self.engine: Engine = engine or EmbeddedEngine(FINDERS)
        self.cloud = folder / "cloud"
        self.events: list[Event] = []
        program = folder / "program"
        program.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "boxes.py", program)
        (folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\nmain: program\n")
        self.cloud.mkdir(exist_ok=True)
        self.request = StackRequest(
            project="lab",
            stack=stack,
            project_root=folder,
            program_dir=program,
            state_file=folder / "state" / f"{stack}.json",
            providers={"box": PROVIDER},
            # Programs are rewritten within a second and at the same length; Python would take their
            # bytecode as current.
            env={"BOX_CLOUD": str(self.cloud), "PYTHONDONTWRITEBYTECODE": "1"},
            parallel=8,
        )

    def program(self, text: str) -> Lab:
        """Write the program (its imports are added)."""
        code = PREAMBLE + textwrap.dedent(text)
        (self.request.program_dir / "__main__.py").write_text(code)
        return self

    def configure(self, **changes: Any) -> Lab:
        """Change the request."""
        self.request = replace(self.request, **changes)
        return self

    def run(self, verb: str, **changes: Any) -> RunResult:
        """Run a verb; `events` has its events."""
        self.events = []
        request = replace(self.request, **changes)
        result: RunResult = getattr(self.engine, verb)(request, self.events.append)
        return result

    def up(self, text: str | None = None, **changes: Any) -> RunResult:
        """Write the program and deploy it; it must succeed."""
        if text is not None:
            self.program(text)
        result = self.run("up", **changes)
        assert result.ok, (result.failures, result.diagnostics)
        return result

    # -- results

    def steps(self, status: str = "done") -> list[tuple[str, str]]:
        """(operation, name) of each resource event with that status, in order."""
        return [
            (event.op.value, event.name)
            for event in self.events
            if isinstance(event, ResourceEvent) and event.status == status
        ]

    def real_steps(self) -> list[tuple[str, str]]:
        """What changed: every finished step except `same`, without the stack itself."""
        return [step for step in self.steps() if step[0] != "same" and not step[1].startswith("lab-")]

    def errors(self) -> dict[str, str]:
        """The message of each failed or skipped resource, by name."""
        return {
            event.name: event.error
            for event in self.events
            if isinstance(event, ResourceEvent) and event.status in ("failed", "skipped")
        }

    def messages(self, severity: str) -> str:
        """All diagnostics of a severity, joined."""
        reported = [event for event in self.events if isinstance(event, DiagnosticEvent)]
        return "\n".join(event.message for event in reported if event.severity == severity)

    # -- the cloud

    def things(self) -> dict[str, dict[str, Any]]:
        """Resources in the cloud, by id."""
        return {file.stem: json.loads(file.read_text()) for file in sorted(self.cloud.glob("things/*.json"))}

    def names(self) -> list[str]:
        """Names of the resources in the cloud."""
        return sorted(thing["urn"].rpartition("::")[2] for thing in self.things().values())

    def calls(self, *ops: str) -> list[dict[str, Any]]:
        """Finished operations in the provider's record."""
        file = self.cloud / "calls.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if not ops or line["op"] in ops]

    def forget_calls(self) -> None:
        """Clear the provider's record."""
        (self.cloud / "calls.jsonl").unlink(missing_ok=True)

    def fault(self, op: str, name: str, **what: Any) -> None:
        """Make an operation fail (message, init), break off (broken), wait (delay) or kill it (die)."""
        file = self.cloud / "faults.json"
        faults = json.loads(file.read_text()) if file.exists() else []
        file.write_text(json.dumps([*faults, {"op": op, "name": name, **what}]))

    def no_faults(self) -> None:
        """Remove all faults."""
        (self.cloud / "faults.json").unlink(missing_ok=True)

    # -- the state

    def export(self) -> dict[str, Any]:
        """The deployment of the exported state."""
        state = self.engine.export(self.request)
        assert state is not None
        assert state["version"] == 3
        deployment: dict[str, Any] = state["deployment"]
        return deployment

    def resources(self) -> dict[str, dict[str, Any]]:
        """The exported resources by name (of two, the one that is not pending deletion)."""
        found: dict[str, dict[str, Any]] = {}
        for resource in self.export().get("resources", []):
            name = resource["urn"].rpartition("::")[2]
            if not resource.get("delete"):
                found[name] = resource
        return found


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A fresh laboratory on the embedded engine."""
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    yield Lab(tmp_path)


@pytest.fixture
def pack(tmp_path: Path, lab: Lab) -> Path:
    """The folder of the policy pack of the lab."""
    folder = tmp_path / "pack"
    lab.configure(policy_packs=(folder,))
    return folder
