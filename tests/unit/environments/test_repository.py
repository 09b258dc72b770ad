"""The fleet repository that `gpufleet new` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpufleet import __version__
from gpufleet.checks import validate
from gpufleet.cli.main import main


def new(folder: Path, *options: str) -> int:
    return main(["new", str(folder), *options])


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_repository_has_what_a_fleet_needs_and_no_gpufleet_code(tmp_path: Path) -> None:
    folder = tmp_path / "ours" / "fleet"
    assert new(folder, "--environment", "east", "--template", "cloud", "--fleet", "zeus") == 0
    written = files(folder)
    assert f"gpufleet[lab]=={__version__}" in written["requirements.txt"].splitlines()
    assert 5 <= len(written["README.md"].splitlines()) <= 12
    assert yaml.safe_load(written["Pulumi.yaml"])["main"] == "stacks"
    assert {"stacks/__main__.py", "policies/__main__.py", "policies/PulumiPolicy.yaml"} <= {*written}
    assert sum(len(text.splitlines()) for name, text in written.items() if name.endswith(".py")) < 30
    for name in ("sandbox", "east"):
        assert validate(name, root=folder).loaded.spec.fleet == "zeus"
    assert list(folder.parent.iterdir()) == [folder]


def test_workflows_are_for_its_environment(tmp_path: Path) -> None:
    new(tmp_path / "fleet", "--environment", "east")
    found = {
        name: text for name, text in files(tmp_path / "fleet").items() if name.startswith(".github/work")
    }
    assert len(found) == 5
    for name, text in found.items():
        parsed = yaml.safe_load(text)
        for job in parsed["jobs"].values():
            environments = job.get("strategy", {}).get("matrix", {}).get("environment", ["east"])
            assert environments == ["east"], name
        assert "[dev, prod]" not in text
        assert "scripts/" not in text
    check = yaml.safe_load(found[".github/workflows/gpufleet-check.yml"])["jobs"]
    assert "requirements.txt" in check["check"]["steps"][3]["run"]
    assert "--no-deps" in check["comment"]["steps"][-1]["run"]
    assert "/requirements.txt " in (tmp_path / "fleet" / ".github" / "CODEOWNERS").read_text()
    deploy = yaml.safe_load(found[".github/workflows/gpufleet-deploy.yml"])["jobs"]
    assert {name: job["with"] for name, job in deploy.items()} == {"east": {"environment": "east"}}
    assert "needs" not in deploy["east"]


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert new(tmp_path) == 2
    assert "already exists" in capsys.readouterr().err
    assert files(tmp_path) == {"notes.txt": "mine"}
    assert new(tmp_path / "notes.txt") == 2
    (tmp_path / "empty").mkdir()
    assert new(tmp_path / "empty") == 0


def test_failure_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpufleet.environments.repository.shutil.copyfile", fail)
    assert new(tmp_path / "fleet") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "value"), [("--environment", "sandbox"), ("--fleet", "No Name")])
def test_invalid_names_are_refused(tmp_path: Path, option: str, value: str) -> None:
    assert new(tmp_path / "fleet", option, value) == 2
    assert not (tmp_path / "fleet").exists()
