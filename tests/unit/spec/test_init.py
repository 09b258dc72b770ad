"""New environments: files written whole and over nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpufleet.errors import InputError
from gpufleet.spec import init
from gpufleet.spec.init import TEMPLATES, check_name, check_template, write_environment
from gpufleet.spec.load import environments

TEXT = "fleet: zeus\n"


@pytest.mark.parametrize("template", TEMPLATES)
def test_environment_is_its_fleet_file_and_stack_settings(tmp_path: Path, template: str) -> None:
    fleet_path, stack_path = write_environment(tmp_path, "lab", template, TEXT)
    assert fleet_path == tmp_path / "stacks" / "lab" / "fleet.yaml"
    assert fleet_path.read_text() == TEXT
    assert stack_path == tmp_path / "stacks" / "Pulumi.lab.yaml"
    cloud = "sandbox" if template == "sandbox" else "aws"
    assert yaml.safe_load(stack_path.read_text()) == {"config": {"gpufleet:cloud": cloud}}


@pytest.mark.parametrize("existing", ["stacks/lab/fleet.yaml", "stacks/Pulumi.lab.yaml"])
def test_existing_file_is_never_overwritten(tmp_path: Path, existing: str) -> None:
    path = tmp_path / existing
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=existing):
        write_environment(tmp_path, "lab", "cloud", TEXT)
    assert path.read_text() == "mine"
    assert sorted(tmp_path.rglob("*")) == before


def test_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    link = tmp_path / "stacks" / "lab" / "fleet.yaml"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is there already"):
        write_environment(tmp_path, "lab", "cloud", TEXT)
    assert not (tmp_path / "elsewhere").exists()


def test_failure_in_between_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = init._create

    def fail_on_the_fleet_file(path: Path, text: str, root: Path) -> None:
        if path.name == "fleet.yaml":
            raise KeyboardInterrupt
        create(path, text, root)

    monkeypatch.setattr(init, "_create", fail_on_the_fleet_file)
    with pytest.raises(KeyboardInterrupt):
        write_environment(tmp_path, "lab", "cloud", TEXT)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert environments(tmp_path) == []


@pytest.mark.parametrize("name", ["", "Lab", "../lab", "lab/x", "lab-", "1lab", "a" * 25, "lab\n"])
@pytest.mark.parametrize("kind", ["environment", "fleet"])
def test_names_that_a_fleet_file_refuses_are_refused(kind: str, name: str) -> None:
    with pytest.raises(InputError, match=f"name for the {kind}") as caught:
        check_name(kind, name)
    assert caught.value.remedy


def test_unknown_template_suggests_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        check_template("hybird")
    assert "did you mean 'hybrid'?" in caught.value.remedy
