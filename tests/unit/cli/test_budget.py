"""`gpufleet budget` of groups that a breach stopped or drains."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest

from gpufleet.account.drained_groups import Drain
from gpufleet.account.stopped_groups import Breach
from gpufleet.cli import budget
from tests.unit.cli.conftest import Gpufleet

SINCE = "2030-05-04T12:00:00+00:00"


class Groups:
    """Stands in for the account: resumes what it is given."""

    def __init__(self) -> None:
        self.resumed: list[Breach] = []

    def resume(self, breach: Breach) -> dict[str, int]:
        self.resumed.append(breach)
        return dict.fromkeys([*breach.before, *breach.drained], 8)


@pytest.fixture
def groups() -> Groups:
    return Groups()


def given(
    monkeypatch: pytest.MonkeyPatch, groups: Groups, spent: int, drained: Mapping[str, Drain] | None = None
) -> None:
    found = drained or {
        "atlas-prod-use1-cheap": Drain(SINCE, (1, 3, 8), 1),
        "atlas-prod-use1-half": Drain("", (0, 2, 4), 0),
        "atlas-prod-dc-burst": Drain(SINCE, (0, 0, 16)),
    }
    breach = Breach(Decimal(spent), Decimal(1000), "", {}, {}, found)
    monkeypatch.setattr(budget, "_read", lambda *_: ("prod", groups, breach))


def test_show_says_how_far_each_group_has_drained(
    gpufleet: Gpufleet, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, groups, 1150)
    answer = gpufleet("budget", "show", "prod")
    assert answer.code == 0
    assert answer.out.splitlines()[1:4] == [
        f"  atlas-prod-dc-burst drains since {SINCE}: its controllers launch no node",
        f"  atlas-prod-use1-cheap drains since {SINCE}: 1 of 3 nodes are left",
        "  atlas-prod-use1-half is being resumed: run `gpufleet budget resume` again",
    ]
    assert "`gpufleet budget resume prod` ends that" in answer.out
    found = gpufleet("budget", "show", "prod", "--json").json["drained"]
    assert found["atlas-prod-use1-cheap"] == {"since": SINCE, "nodes_before": 3, "nodes": 1}


def test_resume_is_refused_while_the_budget_is_spent(
    gpufleet: Gpufleet, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, groups, 1150)
    answer = gpufleet("budget", "resume", "prod", "--yes")
    assert answer.code == 2
    assert "1,150.00 of 1,000.00 USD are spent" in answer.err
    assert groups.resumed == []


def test_resume_starts_drained_groups_again(
    gpufleet: Gpufleet, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, groups, 900)
    answer = gpufleet("budget", "resume", "prod", "--yes")
    assert answer.code == 0
    assert len(groups.resumed) == 1
    assert answer.out.splitlines()[:3] == [
        "  atlas-prod-dc-burst: up to 8 nodes",
        "  atlas-prod-use1-cheap: 3 nodes again, up to 8 nodes",
        "  atlas-prod-use1-half: 2 nodes again, up to 8 nodes",
    ]
