"""The first job of a Slurm site: only what Slurm accepts from a user of the fleet file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.checks import validate
from gpufleet.plan import build_plan
from gpufleet.report.first_job import FirstJob, first_jobs
from tests.rack.lab import FLEET, ROOT

TEAM = "{ name: research, gpus: 24, priority: normal }"


def jobs(tmp_path: Path, *changes: tuple[str, str]) -> tuple[FirstJob, ...]:
    text = FLEET.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "fleet.yaml").write_text(text)
    validated = validate(str(tmp_path / "fleet.yaml"), root=ROOT)
    return first_jobs(build_plan(validated.loaded.spec, validated.catalog))


def test_default_rack_has_a_user_whose_job_takes_two_nodes(tmp_path: Path) -> None:
    assert jobs(tmp_path) == (FirstJob("lab", "login01", "ada", "srun -N2 --gres=gpu:8 hostname"),)


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ((TEAM, TEAM.replace("24", "8")), "srun -N1 --gres=gpu:8 hostname"),
        ((TEAM, TEAM.replace("24", "2")), "srun -N1 --gres=gpu:2 hostname"),
        (("dgx[01-04]", "dgx01"), "srun -N1 --gres=gpu:8 hostname"),
        (("[research]", "[research, serving]"), "srun -A research -N2 --gres=gpu:8 hostname"),
    ],
)
def test_job_is_within_the_limits_of_the_team_and_the_site(
    change: tuple[str, str], command: str, tmp_path: Path
) -> None:
    assert [job.command for job in jobs(tmp_path, change)] == [command]


def test_controller_takes_the_place_of_a_missing_login_host(tmp_path: Path) -> None:
    assert [job.host for job in jobs(tmp_path, ("    login: login01\n", ""))] == ["ctl01"]


def test_site_without_a_user_has_no_first_job(tmp_path: Path) -> None:
    assert jobs(tmp_path, ("    users: [{ name: ada, uid: 2001, teams: [research] }]\n", "")) == ()
    of_nobody = ("teams: [research] }]", "teams: [] }]")
    assert jobs(tmp_path, of_nobody) == ()
