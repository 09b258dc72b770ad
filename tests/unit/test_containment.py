"""An untrusted fleet file reveals nothing of the machine outside its repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.containment import open_contained, repository_of
from gpufleet.engine.api import StackRequest
from gpufleet.engine.embedded.policy_project import load_packs
from gpufleet.errors import InputError, SpecError
from gpufleet.policy.exemption_file import with_exemption_file
from gpufleet.racks.configure.targets import known_hosts_files
from gpufleet.racks.configure.vault import read_vault
from gpufleet.spec.load import load_fleet
from gpufleet.workspace import Workspace
from tests.unit.spec.samples import VALID

SECRET = "AKIA_SECRET_OF_THE_MACHINE"
FOREIGN = f"aws_key: [{SECRET}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one environment, next to a file with a secret and a foreign repository."""
    root = tmp_path / "checkout"
    (root / "stacks" / "demo").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: gpufleet\n")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(FOREIGN)
    (root / "stacks" / "demo" / "fleet.yaml").write_text(VALID)
    (tmp_path / "foreign.yaml").write_text(FOREIGN)
    (tmp_path / "other" / ".git").mkdir(parents=True)
    (tmp_path / "other" / "fleet.yaml").write_text(FOREIGN)
    return root


def refused(action: Callable[[], object]) -> str:
    """All output when `action` is refused as bad input, without the secret."""
    with pytest.raises(InputError) as caught:
        action()
    reported = f"{caught.value.message} {caught.value.remedy}"
    if isinstance(caught.value, SpecError):
        reported += " ".join(str(each) for each in caught.value.findings)
    assert SECRET not in reported
    return reported


def extending(root: Path, value: str) -> str:
    (root / "stacks" / "demo" / "fleet.yaml").write_text(f"extends: {value}\n")
    return refused(lambda: load_fleet("demo", root=root))


@pytest.mark.parametrize(
    "value",
    ["../../../foreign.yaml", "../../../not-there.yaml", "../demo/../../../other/fleet.yaml"],
)
def test_extends_outside_the_repository_is_refused_without_revealing_files(root: Path, value: str) -> None:
    reported = extending(root, value)
    assert "extends-outside" in reported
    assert "did you mean" not in reported


@pytest.mark.parametrize("there", [True, False])
def test_extends_link_out_of_the_repository_is_refused(root: Path, tmp_path: Path, there: bool) -> None:
    (root / "stacks" / "base.yaml").symlink_to(tmp_path / ("foreign.yaml" if there else "none.yaml"))
    assert "extends-outside" in extending(root, "../base.yaml")


def test_extends_through_a_folder_link_out_of_the_repository_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "stacks" / "shared").symlink_to(tmp_path / "other")
    assert "extends-outside" in extending(root, "../shared/fleet.yaml")


def test_extends_link_into_the_git_folder_is_refused(root: Path) -> None:
    (root / "stacks" / "base.yaml").symlink_to(root / ".git" / "config")
    assert "extends-outside" in extending(root, "../base.yaml")


def test_extends_link_is_followed_within_stacks_where_code_owners_see_it(root: Path) -> None:
    (root / "stacks" / "bases").mkdir()
    (root / "stacks" / "bases" / "all.yaml").write_text(VALID)
    (root / "stacks" / "base.yaml").symlink_to("bases/all.yaml")
    (root / "stacks" / "demo" / "fleet.yaml").write_text("extends: ../base.yaml\n")
    assert load_fleet("demo", root=root).spec.fleet == "atlas"


@pytest.mark.parametrize("linked", [True, False])
def test_extends_of_a_file_beside_stacks_is_refused(root: Path, linked: bool) -> None:
    (root / "bases").mkdir()
    (root / "bases" / "all.yaml").write_text(VALID)
    if linked:
        (root / "stacks" / "base.yaml").symlink_to("../bases/all.yaml")
    assert "stacks only" in extending(root, "../base.yaml" if linked else "../../bases/all.yaml")


def test_circular_links_are_bad_input_everywhere(root: Path) -> None:
    (root / "stacks" / "base.yaml").symlink_to("base.yaml")
    assert "loop" in extending(root, "../base.yaml")
    loop = root / "stacks" / "loop"
    loop.symlink_to("loop")
    refused(lambda: Workspace.open(str(loop / "fleet.yaml")))


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_fleet_file_link_out_of_the_checkout_is_not_read(root: Path, tmp_path: Path, linked: str) -> None:
    environment = root / "stacks" / "demo"
    (environment / "fleet.yaml").unlink()
    if linked == "file":
        (environment / "fleet.yaml").symlink_to(tmp_path / "foreign.yaml")
    else:
        environment.rmdir()
        environment.symlink_to(tmp_path / "other")
    assert "leads out" in refused(lambda: load_fleet("demo", root=root))
    assert "leads out" in refused(lambda: Workspace.open(str(environment / "fleet.yaml")))


@pytest.mark.parametrize("name", ["foreign.yaml", "not-there.yaml"])
def test_file_links_beside_a_fleet_file_out_of_the_checkout_are_not_read(
    root: Path, tmp_path: Path, name: str
) -> None:
    environment = root / "stacks" / "demo"
    (environment / "exemptions.yaml").symlink_to(tmp_path / name)
    (environment / "secrets.yml").symlink_to(tmp_path / name)
    (environment / "known_hosts").symlink_to(tmp_path / name)
    (root / "stacks" / "Pulumi.demo.yaml").symlink_to(tmp_path / name)
    loaded = load_fleet("demo", root=root)
    for action in (
        lambda: with_exemption_file(loaded, root),
        lambda: read_vault(environment / "secrets.yml", "password"),
        lambda: known_hosts_files(environment),
        lambda: Workspace(root, "demo").stack_config("demo"),
    ):
        assert "leads out" in refused(action)


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_policy_pack_link_out_of_the_checkout_is_not_read(root: Path, tmp_path: Path, linked: str) -> None:
    other = tmp_path / "other"
    (other / "PulumiPolicy.yaml").write_text(FOREIGN)
    pack = root / "policies"
    if linked == "folder":
        pack.symlink_to(other)
    else:
        pack.mkdir()
        (pack / "PulumiPolicy.yaml").symlink_to(other / "PulumiPolicy.yaml")
    request = StackRequest("gpufleet", "demo", root, root, root / "state.json", policy_packs=(pack,))
    assert "leads out" in refused(lambda: load_packs(request))


def test_stack_settings_cannot_name_a_fleet_file_outside_the_checkout(root: Path, tmp_path: Path) -> None:
    settings = root / "stacks" / "Pulumi.demo.yaml"
    for value in (tmp_path / "foreign.yaml", "../foreign.yaml"):
        settings.write_text(f"config:\n  gpufleet:fleetFile: {value}\n")
        assert "leads out" in refused(lambda: Workspace(root, "demo").stack_config("demo"))
    settings.write_text("config: {gpufleet:fleetFile: stacks/demo/fleet.yaml, protect: True}\n")
    assert Workspace(root, "demo").stack_config("demo")["gpufleet:protect"] == "true"


@pytest.mark.parametrize(
    "text",
    [
        f"config: [{SECRET}\n",
        "config: {a: " + "[" * 5000,
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
            for old, new in zip("abcdefg", "bcdefgh", strict=True)
        )
        + "config: {k: *h}\n",
        "config: !!python/object/apply:os.system [id]\n",
        "config: {a: \x1b]0;x\x07}\n",
        "- a\n",
    ],
)
def test_invalid_stack_settings_are_bad_input_with_their_line(root: Path, text: str) -> None:
    (root / "stacks" / "Pulumi.demo.yaml").write_text(text)
    assert "Pulumi.demo.yaml" in refused(lambda: Workspace(root, "demo").stack_config("demo"))


def test_nearest_repository_counts_and_a_link_into_another_one_is_refused(root: Path, tmp_path: Path) -> None:
    inner = root / "vendor"
    (inner / ".git").mkdir(parents=True)
    assert repository_of(inner / "fleet.yaml") == inner
    assert repository_of(root / "stacks" / "demo" / "fleet.yaml") == root
    (root / "link").symlink_to(tmp_path / "other")
    assert repository_of(root / "link" / "fleet.yaml") == root
    moved = tmp_path / "moved"
    moved.symlink_to(root)
    assert load_fleet(str(moved / "stacks" / "demo" / "fleet.yaml"), root=moved).spec.fleet == "atlas"


def test_folder_that_becomes_a_link_after_the_check_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = root / "stacks" / "demo"
    path = environment / "fleet.yaml"
    enter = os.open

    def exchanging(name: str, *arguments: int, **options: int) -> int:
        if name == "stacks" and not environment.is_symlink():
            environment.rename(root / "was")
            environment.symlink_to(tmp_path / "other")
        return enter(name, *arguments, **options)

    monkeypatch.setattr(os, "open", exchanging)
    with pytest.raises(OSError, match="demo"):
        open_contained(path, "fleet.yaml", within=root)
