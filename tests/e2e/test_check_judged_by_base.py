"""The code of the base judges a change of fleet files, whatever else the change brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Checkout
from tests.e2e.test_check import branch, change, git_of, rule_of
from tests.e2e.test_check import repository as fork

__all__ = ["fork"]

pytestmark = pytest.mark.xdist_group("e2e")

EXPENSIVE = ("max: 2", "max: 6")
RULE = "policies/rules/budget/budget_monthly.py"
SPEND = (
    ("instance_types: [g6e.2xlarge]", "instance_types: [p5.48xlarge]"),
    ("min: 0, max: 2, desired: 1", "min: 2, max: 2, desired: 2"),
)
EVIL = """\
from pathlib import Path
Path({path!r}).write_text("code of the change ran")
"""


@pytest.fixture
def repository(fork: Checkout) -> Checkout:
    """The fork with the rule budget-monthly."""
    (fork.root / RULE).write_text((ROOT / RULE).read_text())
    git_of(fork).commit("budget")
    return fork


def test_change_of_fleet_files_only_is_judged_by_the_code_of_the_base(repository: Checkout) -> None:
    change(repository, EXPENSIVE)
    document = repository.json("check", "tiny", "--base", "main")
    assert document["judged_by"] == {"code": "base", "left_out": [], "verdict_of_base": None, "reason": ""}
    assert document["guard"]["files"] == []
    assert "judged-by-base" not in {each["name"] for each in document["rules"]}


def test_change_that_removes_the_rule_that_it_breaks_fails_by_the_base(
    repository: Checkout, tmp_path: Path
) -> None:
    change(repository, *SPEND)
    (repository.root / RULE).unlink()
    markdown = tmp_path / "v.md"
    document = repository.json("check", "tiny", "--base", "main", "--markdown", str(markdown), code=1)
    assert "budget-monthly" not in {each["name"] for each in document["rules"]}
    assert document["judged_by"]["code"] == "change"
    assert document["judged_by"]["verdict_of_base"] == "fail"
    (found,) = rule_of(document, "judged-by-base")["violations"]
    assert found["message"].startswith("by the code of the base, budget-monthly: ")
    assert document["guard"]["files"] == [RULE]
    assert "must approve" in rule_of(document, "guard-touched")["violations"][0]["message"]
    assert "fails by the code of the base" in markdown.read_text()
    assert git_of(repository)("status", "--porcelain", "--ignored").split() == [
        *("D", RULE, "M", "stacks/tiny/fleet.yaml"),
    ]  # fmt: skip


def test_change_of_code_and_fleet_that_both_pass_is_reported_as_such(repository: Checkout) -> None:
    change(repository, EXPENSIVE)
    change(repository, ("A change adds", "Each change adds"), file="policies/rules/budget/small_steps.py")
    document = repository.json("check", "tiny", "--base", "main")
    assert document["judged_by"]["verdict_of_base"] == "pass"
    assert rule_of(document, "judged-by-base")["status"] == "passed"


def test_fleet_file_that_only_the_new_code_reads_needs_a_change_of_its_own(repository: Checkout) -> None:
    change(
        repository, ("project: atlas }", "project: atlas }\npolicies: { renamed: { enforcement: advisory } }")
    )
    change(repository, ('"small-steps"', '"renamed"'), file="policies/rules/budget/small_steps.py")
    document = repository.json("check", "tiny", "--base", "main", code=1)
    (found,) = rule_of(document, "judged-by-base")["violations"]
    assert "the code of the base cannot judge the data of this change" in found["message"]
    assert "renamed" in found["message"]
    assert "change the code first" in found["remedy"]


def test_data_of_a_commit_is_judged_without_running_its_code(repository: Checkout, tmp_path: Path) -> None:
    git, ran = git_of(repository), tmp_path / "ran"
    git("checkout", "--quiet", "-b", "topic")
    change(repository, *SPEND)
    (repository.root / RULE).unlink()
    for name in (
        "policies/__main__.py",
        "stacks/__main__.py",
        "stacks/program.py",
        "sitecustomize.py",
        "yaml.py",
    ):
        (repository.root / name).write_text(EVIL.format(path=str(ran)))
    (repository.root / ".gitattributes").write_text("* filter=evil\n")
    git.commit("topic")
    git("checkout", "--quiet", "main")
    document = repository.json("check", "tiny", "--base", "main", "--change", "topic", code=1)
    assert not ran.exists()
    assert rule_of(document, "budget-monthly")["status"] == "failed"
    assert document["base"]["ref"] == "main"
    assert document["judged_by"]["code"] == "base"
    assert {"policies/__main__.py", "stacks/program.py", "yaml.py", RULE, ".gitattributes"} <= {
        *document["judged_by"]["left_out"]
    }
    assert rule_of(document, "guard-touched")["status"] == "advisory"
    assert git("status", "--porcelain") == ""


def test_link_to_another_fleet_file_or_out_of_stacks_is_left_out(repository: Checkout) -> None:
    git = git_of(repository)
    git("checkout", "--quiet", "-b", "topic")
    (repository.root / "cheap.yaml").write_text("fleet: evil\n")
    path = repository.root / "stacks" / "tiny" / "fleet.yaml"
    path.unlink()
    path.symlink_to("../../cheap.yaml")
    git.commit("link")
    git("checkout", "--quiet", "main")
    document = repository.json("check", "tiny", "--base", "main", "--change", "topic")
    assert document["changes"]["update"] == 0
    assert document["judged_by"]["left_out"] == ["cheap.yaml", "stacks/tiny/fleet.yaml"]


def test_other_open_changes_count_with_their_data_only(repository: Checkout, tmp_path: Path) -> None:
    git, ran = git_of(repository), tmp_path / "ran"
    branch(repository, "topic", EXPENSIVE)
    branch(repository, "wider", ("nodes: dgx[01-02]", "nodes: dgx[01-03]"))
    git("checkout", "--quiet", "wider")
    (repository.root / "stacks" / "__main__.py").write_text(EVIL.format(path=str(ran)))
    git.commit("evil")
    git("checkout", "--quiet", "main")
    arguments = ("--base", "main", "--change", "topic", "--open", "wider")
    document = repository.json("check", "tiny", *arguments)
    (opened,) = document["open_changes"]
    assert (opened["name"], opened["reason"]) == ("wider", "")
    assert opened["increase"] > 0
    assert not ran.exists()


def test_commit_is_checked_only_with_a_base_and_by_name(repository: Checkout) -> None:
    branch(repository, "topic", EXPENSIVE)
    refused = repository.json("check", "tiny", "--change", "topic", code=2)
    assert "--change needs --base" in refused["error"]
    named = repository.json("check", "stacks/tiny/fleet.yaml", "--base", "main", "--change", "topic", code=2)
    assert "environment's name" in named["error"]
