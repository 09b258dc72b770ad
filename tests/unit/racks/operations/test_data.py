"""Paths of operations on data are relative to the working folder, and resumed runs keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.racks.operations.registry import find_operation


def made(name: str, *given: str) -> dict[str, object]:
    """The resolved options."""
    operation = find_operation(name)
    values = operation.values(given)
    values |= operation.settle(values) if operation.settle is not None else {}
    found = {f"operation_{name}": value for name, value in values.items()}
    return found | dict(operation.variables(values) if operation.variables is not None else {})


def test_local_paths_are_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert made("backup")["operation_to"] == str(tmp_path / ".gpufleet" / "backups")
    assert made("backup", "to=none")["operation_to"] == ""
    assert made("collect", "output=x.tar.gz")["operation_output"] == str(tmp_path / "x.tar.gz")
    name = Path(str(made("collect")["operation_output"])).name
    assert name.startswith("support-") and name.endswith("Z.tar.gz")


def test_backup_missing_locally_is_searched_on_the_database_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm-lab").mkdir()
    here = made("restore", "backup=slurm-lab")
    assert (here["operation_here"], here["operation_backup"]) == (True, str(tmp_path / "slurm-lab"))
    there = made("restore", "backup=/var/backups/gpufleet/slurm/slurm-lab")
    assert (there["operation_here"], there["operation_backup"]) == (
        False,
        "/var/backups/gpufleet/slurm/slurm-lab",
    )


def test_pods_get_the_same_time_to_leave_members_and_nodes() -> None:
    roles = ("kubernetes_control_plane", "kubernetes_node")
    found = made("upgrade_kubernetes", "batch=10%", "drain=60")
    assert {found[f"{role}_drain_timeout_s"] for role in roles} == {60}
    # Without it, the roles' own.
    assert not [name for name in made("upgrade_kubernetes") if name.endswith("_drain_timeout_s")]


@pytest.mark.parametrize("given", ["drain=1", "batch=0", "version=1.36"])
def test_unsupported_kubernetes_upgrade_is_refused(given: str) -> None:
    with pytest.raises(InputError):
        find_operation("upgrade_kubernetes").values([given])


@pytest.mark.parametrize("given", ["version=25.05", "version=25.05.8-1", "version=newest"])
def test_slurm_version_has_three_numbers(given: str) -> None:
    with pytest.raises(InputError):
        find_operation("upgrade_slurm").values([given])


@pytest.mark.parametrize("given", ["folder=backups", "folder=/a b", "keep=0"])
def test_invalid_folder_and_retention_of_zero_are_refused(given: str) -> None:
    with pytest.raises(InputError):
        find_operation("backup").values([given])
