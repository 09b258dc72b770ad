"""New environments: commented files that hold, written whole and over nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpufleet.checks import validate
from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.spec import init
from gpufleet.spec.init import TEMPLATES, render_template, write_environment
from gpufleet.spec.load import environments, load_fleet


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_becomes_an_environment_that_loads(tmp_path: Path, template: str) -> None:
    fleet_path, stack_path = write_environment(tmp_path, "lab", template, "zeus")
    loaded = load_fleet("lab", root=tmp_path)
    assert (loaded.spec.fleet, loaded.environment, loaded.path) == ("zeus", "lab", fleet_path)
    assert fleet_path == tmp_path / "stacks" / "lab" / "fleet.yaml"
    assert stack_path == tmp_path / "stacks" / "Pulumi.lab.yaml"
    cloud = "sandbox" if template == "sandbox" else "aws"
    assert yaml.safe_load(stack_path.read_text()) == {"config": {"gpufleet:cloud": cloud}}
    text = fleet_path.read_text()
    assert text.count("#") > 5
    assert "$" not in text


@pytest.mark.parametrize("name", ["dev", "prod", "lab7-2nd", "a" * 24])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_valid_and_priced_whatever_its_name(tmp_path: Path, template: str, name: str) -> None:
    write_environment(tmp_path, name, template, "zeus")
    validated = validate(name, root=tmp_path)
    assert {finding.rule for finding in validated.findings} <= {"price-age"}
    cost = build_plan(validated.loaded.spec, validated.catalog).cost
    assert cost.unknown == ()
    assert cost.monthly.high is not None
    assert cost.monthly.high < cost.budget_monthly


@pytest.mark.parametrize(
    ("template", "cloud", "onprem"), [("cloud", 1, 0), ("onprem", 0, 1), ("hybrid", 1, 1)]
)
def test_a_template_has_the_sites_of_its_name(tmp_path: Path, template: str, cloud: int, onprem: int) -> None:
    write_environment(tmp_path, "lab", template, "zeus")
    spec = load_fleet("lab", root=tmp_path).spec
    assert (len(spec.cloud), len(spec.onprem)) == (cloud, onprem)


@pytest.mark.parametrize("existing", ["stacks/lab/fleet.yaml", "stacks/Pulumi.lab.yaml"])
def test_nothing_is_ever_written_over_a_file(tmp_path: Path, existing: str) -> None:
    path = tmp_path / existing
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=existing):
        write_environment(tmp_path, "lab", "cloud", "zeus")
    assert path.read_text() == "mine"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    link = tmp_path / "stacks" / "lab" / "fleet.yaml"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is there already"):
        write_environment(tmp_path, "lab", "cloud", "zeus")
    assert not (tmp_path / "elsewhere").exists()


def test_a_failure_half_way_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = init._create

    def fail_on_the_fleet_file(path: Path, text: str, root: Path) -> None:
        if path.name == "fleet.yaml":
            raise KeyboardInterrupt
        create(path, text, root)

    monkeypatch.setattr(init, "_create", fail_on_the_fleet_file)
    with pytest.raises(KeyboardInterrupt):
        write_environment(tmp_path, "lab", "cloud", "zeus")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert environments(tmp_path) == []


@pytest.mark.parametrize("name", ["", "Lab", "../lab", "lab/x", "lab-", "1lab", "a" * 25, "lab\n"])
def test_names_that_a_fleet_file_refuses_are_refused(tmp_path: Path, name: str) -> None:
    for environment, fleet in ((name, "zeus"), ("lab", name)):
        with pytest.raises(InputError) as caught:
            write_environment(tmp_path, environment, "cloud", fleet)
        assert caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_template_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        render_template("hybird", "lab", "zeus")
    assert "did you mean 'hybrid'?" in caught.value.remedy
