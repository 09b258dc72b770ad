"""`init`, `validate`, `plan` and `schema` on real fleet files."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.plan import build
from gpufleet.pricing.book import CostBook

from .conftest import Gpufleet

TEMPLATES = ("sandbox", "cloud", "onprem", "hybrid")


@pytest.mark.parametrize("template", TEMPLATES)
def test_init_writes_an_environment_that_validates_and_plans(
    gpufleet: Gpufleet, workplace: Path, template: str
) -> None:
    answer = gpufleet("init", "mine", "--template", template)
    assert answer.code == 0
    assert answer.out.splitlines()[:2] == ["wrote stacks/mine/fleet.yaml", "wrote stacks/Pulumi.mine.yaml"]
    assert "gpufleet validate mine" in answer.out
    assert gpufleet("validate", "mine").code == 0
    planned = gpufleet("plan", "mine")
    assert planned.code == 0
    assert planned.out.startswith("atlas/mine: ")


def test_init_never_overwrites_an_environment(gpufleet: Gpufleet, workplace: Path) -> None:
    before = (workplace / "stacks" / "dev" / "fleet.yaml").read_bytes()
    answer = gpufleet("init", "dev")
    assert answer.code == 2
    assert "stacks/dev/fleet.yaml is there already" in answer.err
    assert (workplace / "stacks" / "dev" / "fleet.yaml").read_bytes() == before


def test_init_json_lists_the_files_and_the_defaults(gpufleet: Gpufleet, workplace: Path) -> None:
    written = gpufleet("init", "mine", "--region", "us-east-1", "--json").json
    assert written["written"] == [
        str(workplace / "stacks" / "mine" / "fleet.yaml"),
        str(workplace / "stacks" / "Pulumi.mine.yaml"),
    ]
    assert "--region" not in written["defaults"]
    assert written["defaults"][4:6] == ["--system", "dgx-h100"]


@pytest.mark.parametrize("name", ["Bad Name!", "", "-x", "../x"])
def test_init_refuses_invalid_names(gpufleet: Gpufleet, workplace: Path, name: str) -> None:
    before = sorted(workplace.rglob("*"))
    answer = gpufleet("init", "--", name)
    assert answer.code == 2
    assert "is no name for the environment" in answer.err
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize("environment", ["sandbox", "dev", "prod"])
def test_shipped_environments_validate_and_plan(gpufleet: Gpufleet, environment: str) -> None:
    assert gpufleet("validate", environment).code == 0
    answer = gpufleet("plan", environment)
    assert answer.code == 0
    assert "USD budget" in answer.out


@pytest.mark.usefixtures("old_price")
def test_validate_prints_warnings_on_stderr_and_the_result_on_stdout(gpufleet: Gpufleet) -> None:
    answer = gpufleet("validate", "dev")
    assert answer.err.startswith("stacks/dev/fleet.yaml:")
    assert "    remedy: " in answer.err
    assert answer.out.rstrip().endswith("stacks/dev/fleet.yaml: valid, with 1 warning")


def test_validate_json_has_findings_with_the_stable_keys(gpufleet: Gpufleet, workplace: Path) -> None:
    valid = gpufleet("validate", "dev", "--json")
    assert valid.code == 0
    assert list(valid.json) == ["valid", "findings"]
    path = workplace / "stacks" / "dev" / "fleet.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("storage:", "storrage:"), encoding="utf-8")
    answer = gpufleet("validate", "dev", "--json")
    assert answer.code == 2
    assert answer.json["valid"] is False
    (finding,) = [item for item in answer.json["findings"] if item["severity"] == "error"]
    reported = {"file", "line", "field", "value", "rule", "message", "remedy", "severity", "fixes"}
    assert set(finding) == reported
    assert finding["file"] == "stacks/dev/fleet.yaml"
    assert "storage" in finding["remedy"]
    assert answer.err == ""


def test_validate_shows_user_text_unchanged(gpufleet: Gpufleet, workplace: Path) -> None:
    path = workplace / "own.yaml"
    path.write_text("root:x:0:0:[bold]root[/bold]\n", encoding="utf-8")
    answer = gpufleet("validate", "own.yaml")
    assert answer.code == 2
    assert "    value:  root:x:0:0:[bold]root[/bold]" in answer.err
    assert ": : " not in answer.err


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("dve", "did you mean 'dev'?"),
        ("nowhere.yaml", "cannot read nowhere.yaml"),
        ("stacks/dev", "use the file in it: stacks/dev/fleet.yaml"),
        ("stacks/dev/", "use the file in it: stacks/dev/fleet.yaml"),
        ("stacks/", "is a folder"),
        ("", "no environment"),
        ("..", "no environment"),
    ],
)
def test_file_that_is_not_a_fleet_file_is_bad_input(gpufleet: Gpufleet, target: str, words: str) -> None:
    answer = gpufleet("validate", target)
    assert answer.code == 2
    assert words in answer.err


def test_commands_work_in_a_subfolder_of_the_checkout(
    gpufleet: Gpufleet, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace / "stacks" / "dev")
    assert gpufleet("validate", "dev").code == 0
    assert gpufleet("validate", "./fleet.yaml").code == 0


def test_plan_shows_sites_costs_and_what_is_not_counted(gpufleet: Gpufleet) -> None:
    out = gpufleet("plan", "sandbox").out
    for words in ("use1  aws us-east-1", "usw2  aws us-west-2", "lab  racks", "monthly cost (730 hours)"):
        assert words in out
    assert "unknown cost" not in out
    home = next(line for line in out.splitlines() if "PERSISTENT_1 50 MB" in line)
    assert "2026-07-14 (" in home
    assert "not counted, because it depends on usage or is already paid:" in out
    electricity = next(line for line in out.splitlines() if "electricity" in line)
    assert electricity.rstrip().endswith("fleet file")
    assert "…" not in out


def test_plan_marks_an_estimated_cost(gpufleet: Gpufleet, workplace: Path) -> None:
    file = workplace / "stacks" / "sandbox" / "fleet.yaml"
    file.write_text(file.read_text().replace("metadata_iops: 12000", "metadata_iops: 24000"))
    out = gpufleet("plan", "sandbox").out
    iops = next(line for line in out.splitlines() if "12,000 metadata IOPS above those included" in line)
    assert iops.rstrip().endswith("estimate")


@pytest.mark.parametrize("command", ["plan dev", "plan dev --json", "validate dev", "inventory dev"])
def test_command_builds_and_prices_the_plan_once(
    gpufleet: Gpufleet, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    built = _count_calls(monkeypatch, build, "plan_budget")
    priced = _count_calls(monkeypatch, CostBook, "cost")
    assert gpufleet(*command.split()).code == 0
    assert (len(built), len(priced)) == (1, 1)


def _count_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str) -> list[None]:
    """Calls of a method from now on; the method still works."""
    calls: list[None] = []
    real = getattr(owner, method)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, method, counted)
    return calls


def test_plan_shows_the_age_of_prices(gpufleet: Gpufleet) -> None:
    line = next(line for line in gpufleet("plan", "sandbox").out.splitlines() if "EKS control plane" in line)
    date = line.split()[-4]
    age = (dt.datetime.now(tz=dt.UTC).date() - dt.date.fromisoformat(date)).days
    assert line.split()[-4:] == [date, f"({age}", "d", "ago)"]


def test_plan_json_keeps_the_stable_contract(gpufleet: Gpufleet) -> None:
    document = gpufleet("plan", "sandbox", "--json").json
    group = next(item for item in document["node_groups"] if item["name"] == "pretrain")
    assert group["instance_type"] == "p5.48xlarge"
    assert set(group["network_interfaces"][0]) == {"network_card_index", "device_index", "interface_type"}
    assert {"amount", "currency", "unknown"} <= set(document["cost"]["monthly"])
    assert document["findings"][0]["rule"] == "price-age"


def test_schema_is_json_with_all_fields(gpufleet: Gpufleet) -> None:
    answer = gpufleet("schema")
    assert answer.code == 0
    schema = json.loads(answer.out)
    assert schema["title"] == "gpufleet fleet file"
    assert '"node_groups"' in answer.out
