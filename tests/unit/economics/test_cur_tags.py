"""Cost allocation tags of a Cost and Usage Report 2.0: their keys, and what a report without them says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.economics.cur import read_cur
from gpufleet.economics.cur_tags import TagNames, tag_keys
from tests.unit.economics.cur_files import write_cur

GPUS = {"p5.48xlarge": 8}


# Keys of AWS's own tags and of tags of users, as AWS's tables and dashboards of CUR 2.0 have them.
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("team", ("user_team",)),
        ("cost-center", ("user_cost_center",)),
        ("Cost Center", ("user_cost_center", "user_cost center")),
        ("CostCenter", ("user_cost_center", "user_costcenter")),
        ("team.name/1", ("user_team_name_1", "user_team.name/1")),
        ("k8s:Team", ("user_k8s_team",)),
        ("aws:createdBy", ("aws_created_by", "user_aws_createdby")),
        ("aws:autoscaling:groupName", ("aws_autoscaling_group_name", "user_aws_autoscaling_groupname")),
    ],
)
def test_words_of_a_tag_are_split_in_its_key(name: str, keys: tuple[str, ...]) -> None:
    assert tag_keys(name) == keys


@pytest.mark.parametrize("file", ["cur.parquet", "cur.csv"])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("CostCenter", "user_cost_center"),
        ("CostCenter", "user_costcenter"),
        ("cost.center", "user_cost_center"),
        ("aws:createdBy", "aws_created_by"),
    ],
)
def test_tag_in_camel_case_is_found_in_either_spelling(
    tmp_path: Path, file: str, name: str, key: str
) -> None:
    path = write_cur(tmp_path / file, [{"resource_tags": {key: "cc-1"}}])
    (found,) = read_cur([path], GPUS, TagNames(team=name)).allocations
    assert (found.team, found.gpu_hours) == ("cc-1", 8.0)


def test_other_tag_with_the_old_spelling_is_not_mixed_in(tmp_path: Path) -> None:
    path = write_cur(
        tmp_path / "cur.parquet",
        [{"resource_tags": {"user_cost_center": "cc-1"}}, {"resource_tags": {"user_costcenter": "other"}}],
    )
    found = read_cur([path], GPUS, TagNames(team="CostCenter")).allocations
    assert {each.team for each in found} == {"cc-1", ""}


@pytest.mark.parametrize("file", ["cur.parquet", "cur.csv"])
def test_tag_that_no_row_has_is_noted_with_the_tags_of_the_report(tmp_path: Path, file: str) -> None:
    tags = {"user_team": "ml", "user_project": "atlas", "user_experiment": "run-7"}
    path = write_cur(tmp_path / file, [{"resource_tags": tags}, {}])
    assert read_cur([path], GPUS, TagNames()).notes == ()
    (note,) = read_cur([path], GPUS, TagNames(team="CostCentre")).notes
    assert note.startswith(
        "AWS: no row has the team tag 'CostCentre' (user_cost_centre); the report has user_experiment, "
        "user_project, user_team: give another name (--tag-team, "
    )


@pytest.mark.parametrize("file", ["cur.parquet", "cur.csv"])
def test_report_without_any_tag_says_so(tmp_path: Path, file: str) -> None:
    (note,) = read_cur([write_cur(tmp_path / file, [{}])], GPUS, TagNames()).notes
    assert "the team tag 'team' (user_team) or the project tag 'project' (user_project) or" in note
    assert "; the report has no tags: " in note


def test_first_ten_tags_of_a_report_are_shown(tmp_path: Path) -> None:
    tags = {f"user_t{number:02}": "x" for number in range(12)}
    (note,) = read_cur(
        [write_cur(tmp_path / "cur.parquet", [{"resource_tags": tags}])], GPUS, TagNames()
    ).notes
    assert "user_t00, user_t01" in note
    assert "user_t09 and others: " in note
