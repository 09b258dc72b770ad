"""Which waiting jobs of the racks may use cloud nodes, and why."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from cloud_nodes.burst import Cloud, Decision, decide_burst, usd_of
from cloud_nodes.settings import Burst, BurstGroup
from cloud_nodes.waiting import QueuedJob
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
HOUR = 3600.0
SWEEP = BurstGroup("use1-sweep", 4, 16, 64_000, 8, "h100", Decimal("40"))
CHEAP = BurstGroup("use1-cheap", 16, 4, 16_000, 1, "l40s", Decimal("2"))
RULES = Burst(
    accounts=("research",),
    partitions=("gpu",),
    after_s=1800,
    boot_s=1200,
    idle_s=600,
    monthly_usd=Decimal(500),
    groups=(SWEEP, CHEAP),
)
WAITED = QueuedJob(
    id="7",
    account="research",
    partitions=("gpu",),
    reason="Resources",
    eligible=NOW - HOUR,
    expected=None,
    ends=None,
    deadline=None,
    limit_s=HOUR,
    nodes=1,
    cpus=1,
    memory_mib=1000,
    gpus=8,
    gpu_types=frozenset(),
    bound_by="",
    comment="",
    note="",
    state="PD",
)
ALLOWED: dict[str, Any] = {"partitions": ("gpu", "use1-sweep"), "added": ("use1-sweep",)}
SENT: dict[str, Any] = {"partitions": ("use1-sweep",)}
RUNS: dict[str, Any] = {**SENT, "state": "R", "ends": NOW + HOUR}


def job(**changes: Any) -> QueuedJob:
    return replace(WAITED, **changes)


def cloud(**changes: Any) -> Cloud:
    free = {"use1-sweep": 4, "use1-cheap": 16}
    return replace(Cloud(NOW, free, (), Decimal(0), NOW + 240 * HOUR), **changes)


def decide(
    *waiting: QueuedJob, running: tuple[QueuedJob, ...] = (), rules: Burst = RULES, **has: Any
) -> list[Decision]:
    return decide_burst(rules, waiting, running, cloud(**has))


def test_job_that_waited_keeps_its_partition_and_gets_the_one_that_fits() -> None:
    (found,) = decide(job())
    assert found.partitions == ("gpu", "use1-sweep")
    # 20 minutes to boot, an hour, and 10 minutes until it is terminated.
    assert found.text == (
        "gpufleet burst: cloud: waited 60 min; use1-sweep costs up to 60.00 of 500.00 USD left this month"
    )


def test_cheapest_group_that_fits_is_chosen() -> None:
    (found,) = decide(job(gpus=1))
    assert found.partition == "use1-cheap"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"account": "b"}, "residency: jobs of account b do not leave the racks"),
        ({"account": ""}, "residency: jobs of account (none) do not leave the racks"),
        ({"comment": "gpufleet:stay, patients"}, "residency: its comment starts with gpufleet:stay"),
        ({"reason": "Dependency"}, "reason: waits for another reason than nodes: Dependency"),
        ({"reason": "BeginTime"}, "reason: waits for another reason than nodes: BeginTime"),
        ({"bound_by": "a constraint"}, "bound: is bound to nodes of the racks by a constraint"),
        ({"limit_s": None}, "limit: has no time limit, so that its cost has no upper end"),
        (
            {"nodes": 17},
            "nodes: use1-sweep has 4 nodes, and it needs 17; use1-cheap has 16 nodes, and it needs 17",
        ),
        (
            {"gpu_types": frozenset({"b200"}), "gpus": 1},
            "nodes: use1-sweep has no b200; use1-cheap has no b200",
        ),
        (
            {"gpus": 17, "nodes": 2},
            (
                "nodes: GPUs a node: use1-sweep has 8, and it needs 9;"
                " GPUs a node: use1-cheap has 1, and it needs 9"
            ),
        ),
        (
            {"gpus": 1, "cpus": 17},
            (
                "nodes: CPUs a node: use1-sweep has 16, and it needs 17;"
                " CPUs a node: use1-cheap has 4, and it needs 17"
            ),
        ),
        (
            {"gpus": 2, "memory_mib": 64_001},
            (
                "nodes: MiB of memory a node: use1-sweep has 64000, and it needs 64001;"
                " GPUs a node: use1-cheap has 1, and it needs 2"
            ),
        ),
        ({"eligible": NOW - 1799}, "wait: waits for less than 30 min"),
        (
            {"expected": NOW + 1200},
            "wait: Slurm expects it to start within 20 min, before a cloud node is up",
        ),
        ({"deadline": NOW + 1200 + HOUR - 1}, "deadline: ends after its deadline in the cloud too"),
        (
            {"deadline": NOW + 9 * HOUR, "expected": NOW + 8 * HOUR},
            "deadline: Slurm expects it to end before its deadline on the racks",
        ),
        (
            {"limit_s": 20 * HOUR},
            "budget: costs up to 820.00 USD, and 500.00 of 500.00 are left this month",
        ),
    ],
)
def test_job_stays_on_the_racks_and_is_told_why(changes: dict[str, Any], text: str) -> None:
    (found,) = decide(job(**changes))
    assert (found.partition, found.text) == ("", f"gpufleet burst: {text}")
    assert found.partitions == ("gpu",)


@pytest.mark.parametrize(
    "changes",
    [
        {"eligible": NOW - 1800},
        {"expected": NOW + 1201},
        {"gpu_types": frozenset({"h100"})},
        {"gpus": 16, "nodes": 2, "cpus": 32, "memory_mib": 128_000},
        {"reason": "Priority"},
        {"reason": "ReqNodeNotAvail, UnavailableNodes:dgx01"},
        {"reason": "Nodes required for job are DOWN, DRAINED or reserved"},
    ],
)
def test_job_at_the_limit_of_a_rule_goes(changes: dict[str, Any]) -> None:
    (found,) = decide(job(**changes))
    assert found.partition == "use1-sweep"


@pytest.mark.parametrize(
    ("deadline", "expected", "goes"),
    [
        # Just in time in the cloud; on the racks Slurm does not know.
        (NOW + 1200 + HOUR, None, True),
        (NOW + 2400 + HOUR - 1, None, True),
        (NOW + 2400 + HOUR, None, False),
        # Slurm knows that the racks are too late, a day ahead.
        (NOW + 24 * HOUR, NOW + 23 * HOUR + 1, True),
        (NOW + 24 * HOUR, NOW + 23 * HOUR, False),
    ],
)
def test_deadline_needs_no_wait(deadline: float, expected: float | None, goes: bool) -> None:
    (found,) = decide(job(eligible=NOW - 1, deadline=deadline, expected=expected))
    assert bool(found.partition) is goes
    assert not goes or found.why.startswith("ends after its deadline on the racks; ")


def test_jobs_of_other_partitions_and_those_that_users_sent_are_not_ours() -> None:
    assert decide(job(partitions=("debug",)), job(**SENT)) == []
    (found,) = decide(job(partitions=("debug",)), rules=replace(RULES, partitions=("gpu", "debug")))
    assert found.partition == "use1-sweep"


def test_job_that_another_site_allowed_is_left_to_it() -> None:
    elsewhere = {"partitions": ("gpu", "usw2-other"), "added": ("usw2-other",)}
    assert decide(job(**elsewhere)) == []


def test_job_of_a_stopped_group_needs_free_nodes_in_another_one() -> None:
    has = {"stopped": ["use1-sweep"], "free": {"use1-cheap": 0}}
    (found,) = decide(job(gpus=1, **ALLOWED), **has)
    assert (found.rule, found.partitions) == ("free", ("gpu",))


def test_nodes_are_given_in_the_order_of_priority_and_once() -> None:
    first, second, third = (job(id=str(number), nodes=2, gpus=16) for number in range(3))
    found = decide(first, second, third)
    assert [each.rule for each in found] == ["cloud", "cloud", "free"]
    assert found[2].why == "needs 2 free nodes, and use1-sweep has 0"
    # A job that a user sent there needs them too.
    assert [each.rule for each in decide(job(id="1", nodes=3, gpus=24), job(**SENT, nodes=2))] == ["free"]


def test_what_runs_and_what_was_allowed_counts_against_the_month() -> None:
    assert decide(job(), spent=Decimal("440"))[0].rule == "cloud"
    assert decide(job(), spent=Decimal("440.01"))[0].text.endswith(
        "budget: costs up to 60.00 USD, and 59.99 of 500.00 are left this month"
    )
    # An hour and ten minutes of one node: 46.67 USD.
    assert decide(job(), running=(job(**RUNS),), spent=Decimal("393.33"))[0].rule == "cloud"
    assert decide(job(), running=(job(**RUNS),), spent=Decimal("393.34"))[0].rule == "budget"
    # One whose nodes still start may take 20 minutes more: 60 USD.
    starts = (job(**RUNS | {"state": "CF"}),)
    assert decide(job(), running=starts, spent=Decimal("380"))[0].rule == "cloud"
    assert decide(job(), running=starts, spent=Decimal("380.01"))[0].rule == "budget"
    # Without an end it may run until the month ends.
    assert decide(job(), running=(job(**{**RUNS, "ends": None}),))[0].why.startswith(
        "costs up to 60.00 USD, and 0.00 of 500"
    )
    assert decide(job(**SENT, id="8", limit_s=None), job())[0].rule == "budget"


def test_job_that_was_allowed_keeps_its_place_before_others() -> None:
    before, new = job(id="9", **ALLOWED), job(id="1")
    found = decide(new, before, spent=Decimal("400"))
    assert [(each.job.id, each.partition) for each in found] == [("1", ""), ("9", "use1-sweep")]
    # Slurm queued it again after a failed launch; no node is free now.
    (kept,) = decide(replace(before, reason="BeginTime", eligible=NOW), free={})
    assert (kept.partitions, kept.why.partition(";")[0]) == (("gpu", "use1-sweep"), "was allowed before")


@pytest.mark.parametrize(
    ("changes", "has", "rule"),
    [
        ({}, {"stopped": ["use1-sweep"]}, "stopped"),
        ({}, {"spent": Decimal("440.01")}, "budget"),
        ({"account": "b"}, {}, "residency"),
        ({"comment": "gpufleet:stay"}, {}, "residency"),
    ],
)
def test_job_that_was_allowed_comes_back(changes: dict[str, Any], has: dict[str, Any], rule: str) -> None:
    (found,) = decide(job(**ALLOWED, **changes), **has)
    assert (found.rule, found.partitions) == (rule, ("gpu",))


def test_group_that_the_budget_stopped_gets_no_job_and_another_does() -> None:
    (found,) = decide(job(gpus=1), stopped=["use1-cheap"])
    assert found.partition == "use1-sweep"


def test_costs_are_rounded_up_to_cents() -> None:
    assert usd_of(SWEEP, 1, 1) == Decimal("0.02")
    assert usd_of(SWEEP, 2, 0.5) == Decimal("0.03")
    assert usd_of(SWEEP, 3, 3600) == 120


JOBS = st.builds(
    lambda number, **changes: job(id=str(number), **changes),
    st.integers(1, 10**6),
    account=st.sampled_from(["research", "b"]),
    limit_s=st.one_of(st.none(), st.floats(60, 30 * HOUR)),
    nodes=st.integers(1, 5),
    gpus=st.integers(0, 40),
    eligible=st.floats(NOW - 2 * HOUR, NOW),
    added=st.just(()),
)


@given(st.lists(JOBS, max_size=12, unique_by=lambda each: each.id), st.integers(0, 600))
def test_no_sequence_of_jobs_spends_more_than_the_month_has_or_more_nodes_than_there_are(
    waiting: list[QueuedJob], spent: int
) -> None:
    found = [each for each in decide(*waiting, spent=Decimal(spent)) if each.partition]
    groups = {group.partition: group for group in RULES.groups}
    costs = [usd_of(groups[each.partition], each.job.nodes, 1800 + (each.job.limit_s or 0)) for each in found]
    assert sum(costs, Decimal(spent)) <= max(RULES.monthly_usd, Decimal(spent))
    for name, group in groups.items():
        assert sum(each.job.nodes for each in found if each.partition == name) <= group.nodes
    assert all(each.job.account == "research" and each.job.limit_s is not None for each in found)
