"""A checkout as working folder, an engine with prepared results, and the command line as a function."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from gpufleet.account.result import Preflight
from gpufleet.catalog import KeyPrices, Price
from gpufleet.catalog.store import SERVICES, services_text
from gpufleet.checks.rules import Fleet
from gpufleet.cli.main import main
from gpufleet.engine.api import (
    Changes,
    Event,
    OnEvent,
    Op,
    PlannedResource,
    ResourceEvent,
    RunResult,
    StackRequest,
    Verb,
)
from tests.unit.cli.configuring import WRITE, Rack

ROOT = Path(__file__).resolve().parents[3]
STACK = "urn:pulumi:dev::gpufleet::pulumi:pulumi:Stack::gpufleet-dev"
VPC = "urn:pulumi:dev::gpufleet::gpufleet:network:Network$aws:ec2/vpc:Vpc::atlas-dev-use1-vpc"
TOPIC = "urn:pulumi:dev::gpufleet::aws:sns/topic:Topic::atlas-dev-budget"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout as the working folder."""
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "COLUMNS", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@dataclass
class Answer:
    """Output of `gpufleet`."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The only object on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)


Gpufleet = Callable[..., Answer]


TODAY = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


@pytest.fixture
def gpufleet(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Gpufleet:
    """Run `gpufleet <arguments>` in the workplace on a fixed day: warnings of age and support
    dates depend on the date, and tests must not."""
    monkeypatch.setattr("gpufleet.checks.Fleet", _fleet_today)

    def run(*arguments: str) -> Answer:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def _fleet_today(spec: Any, catalog: Any, source: Any, _now: dt.datetime, bought: Any) -> Fleet:
    return Fleet(spec, catalog, source, TODAY, bought)


def event(urn: str, op: Op = Op.CREATE, status: str = "done", **fields: Any) -> ResourceEvent:
    """An event of a resource."""
    head, _, name = urn.rpartition("::")
    kind = head.rpartition("::")[2].rpartition("$")[2]
    return ResourceEvent(urn=urn, type=kind, name=name, op=op, status=status, **fields)  # type: ignore[arg-type]


def result(verb: Verb, **fields: Any) -> RunResult:
    """A result of the embedded engine."""
    defaults: dict[str, Any] = {"engine": "embedded", "ok": True, "changes": Changes(), "duration_s": 1.25}
    return RunResult(verb=verb, **{**defaults, **fields})


def planned(urn: str, op: Op, inputs: Mapping[str, Any]) -> PlannedResource:
    """A resource as a run leaves it."""
    made = event(urn)
    return PlannedResource(
        urn=urn, type=made.type, name=made.name, op=op, custom=True, inputs=inputs, parent=STACK
    )


@dataclass
class FakeEngine:
    """An `Engine` with prepared runs: events and result for each verb."""

    runs: dict[Verb, tuple[Sequence[Event], RunResult | BaseException]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    state: dict[str, Any] | None = None
    complete: bool = True
    name: Literal["embedded", "pulumi"] = "embedded"
    asked: list[tuple[str, StackRequest]] = field(default_factory=list)

    def _run(self, verb: Verb, request: StackRequest, on_event: OnEvent) -> RunResult:
        self.asked.append((verb, request))
        events, outcome = self.runs[verb]
        for item in events:
            on_event(item)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def preview(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        return self._run("preview", request, on_event)

    def up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        return self._run("up", request, on_event)

    def refresh(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        return self._run("refresh", request, on_event)

    def destroy(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        return self._run("destroy", request, on_event)

    def outputs(self, request: StackRequest) -> Mapping[str, Any]:
        self.asked.append(("outputs", request))
        return self.values

    def export(self, request: StackRequest) -> dict[str, Any] | None:
        self.asked.append(("export", request))
        return self.state

    def is_complete(self, request: StackRequest) -> bool:
        return self.complete

    @property
    def verbs(self) -> list[str]:
        """The verbs of its runs, in order."""
        return [verb for verb, _ in self.asked]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """The engine of every command, whichever it requests. Creates a VPC and a topic."""
    events = [
        event(STACK),
        event(VPC, status="started", parent=STACK),
        event(VPC, parent=STACK, elapsed_s=2.0),
        event(TOPIC, parent=STACK),
    ]
    resources = (
        planned(VPC, Op.CREATE, {"tags": {"gpufleet:site": "use1"}}),
        planned(TOPIC, Op.CREATE, {"tags": {"gpufleet:fleet": "atlas"}}),
    )
    created: dict[str, Any] = {"changes": Changes(create=3), "resources": resources}
    fake = FakeEngine(
        {
            "preview": (events, result("preview", **created)),
            "up": (events, result("up", outputs={"fleet": "atlas", "use1": {"vpc_id": "vpc-1"}}, **created)),
            "refresh": ([event(VPC, Op.SAME)], result("refresh", changes=Changes(same=1))),
            "destroy": ([event(VPC, Op.DELETE)], result("destroy", changes=Changes(delete=1))),
        }
    )
    monkeypatch.setattr("gpufleet.engine.select.select_engine", lambda *_, **__: fake)
    monkeypatch.setattr("gpufleet.cli.account.require_account", lambda *_, **__: "********9012")
    monkeypatch.setattr("gpufleet.cli.preflight.read_account", lambda *_: Preflight("********9012", ()))
    yield fake


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    """A checkout whose rack hosts are this machine."""
    made = Rack(tmp_path)
    made.play(WRITE)
    # The addresses do not answer, but their host keys are known.
    (tmp_path / "stacks" / "sandbox" / "known_hosts").write_text("[127.0.0.1]:1 ssh-ed25519 AAAA\n")
    return made


@pytest.fixture
def old_price(workplace: Path) -> None:
    """The price of NAT gateways in us-east-1, as it was read years ago."""
    price = Price(amount=Decimal("0.045"), unit="hour", source="account", date=dt.date(2020, 1, 1))
    folder = workplace / ".gpufleet" / "catalog"
    folder.mkdir(parents=True, exist_ok=True)
    prices = KeyPrices(key="nat-gateway-hour", prices={"us-east-1": price})
    (folder / SERVICES).write_text(services_text([prices]))
