"""Tools of the scale benchmark: valid fleets, a limited peer, and a correct count."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from gpufleet.checks import validate
from tests.bench.generate import teams_file
from tests.bench.scale import Budget, Runs, Size, stores, times
from tests.bench.written import counts, file_bytes


@pytest.mark.parametrize("groups", [3, 200])
def test_generated_fleet_passes_every_check_and_has_a_team_per_group(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(teams_file(groups), encoding="utf-8")
    (site,) = validate(str(path), root=tmp_path).loaded.spec.cloud
    assert site.kubernetes is not None
    assert len(site.node_groups) == len(site.kubernetes.teams) == groups
    assert {group.team for group in site.node_groups} == {team.name for team in site.kubernetes.teams}


def test_cli_is_skipped_where_its_quadratic_growth_exceeds_the_time() -> None:
    budget = Budget(100.0)
    assert budget.allows(2000)
    budget.spend(100, 10.0)
    assert budget.allows(300)
    assert not budget.allows(301)
    assert not Budget(0.0).allows(100)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Other temporary files may be in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_stored_bytes_are_counted_in_pages_without_pipes(on_disk: Path) -> None:
    if not counts(on_disk):
        pytest.skip("/var/tmp lies on a file system that counts no writes")
    before = file_bytes()
    with (on_disk / "file").open("wb", buffering=0) as file:
        for _ in range(10):
            file.write(b"x")
            os.fsync(file.fileno())
    assert file_bytes() - before >= 10 * 4096
    before = file_bytes()
    read, write = os.pipe()
    os.write(write, bytes(8192))
    os.close(read)
    os.close(write)
    assert file_bytes() - before < 4096


def test_growth_is_the_time_per_resource_relative_to_the_smallest_fleet() -> None:
    verbs = ("preview", "up, everything to create", "up, nothing to change", "destroy")
    small = Size(1, 100, {verb: Runs([1.0], [102_400]) for verb in verbs}, {}, [1.0])
    large = Size(2, 1000, {verb: Runs([20.0], [2_048_000]) for verb in verbs}, {}, [2.0])
    large.peer = {verb: Runs([40.0], [4_096_000]) for verb in verbs}
    small.peer = {verb: Runs([2.0], [102_400]) for verb in verbs}
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(times([small, large]))
    console.print(stores([small, large]))
    cells = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in console.export_text().splitlines()
        if line.startswith("│ preview")
    ]
    assert cells == [
        ["preview", "100", "1.0", "10.0", "1.00", "", "1.0", "2.0", "1.00", "0.50"],
        ["preview", "1,000", "20.0", "20.0", "2.00", "21.1", "2.0", "40.0", "2.00", "0.50"],
        ["preview", "100", "1.0", "1.0", "1.000"],
        ["preview", "1,000", "2.0", "4.0", "0.500"],
    ]
