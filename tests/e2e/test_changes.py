"""Every documented change runs through the engine and has its documented effect."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from gpufleet.changes.change import Approval, FieldChange
from gpufleet.changes.fields import fleet_fields
from gpufleet.changes.guard import (
    RESERVATIONS,
    STORAGE,
    lost_contents,
    lost_data,
    lost_reservations,
    refuse_data_loss,
)
from gpufleet.changes.observe import Effect, ObservedStep
from gpufleet.changes.table import CLOUD, is_rack
from gpufleet.errors import RefusedError
from tests.e2e.changes_case import SITES, Case
from tests.e2e.changes_cases import KUBERNETES_ONLY, SLURM_ONLY, all_cases, rack_cases, rounds
from tests.e2e.changes_fleet import changed, fleet
from tests.e2e.changes_lab import Lab, steps_text
from tests.e2e.changes_racks import RACKS_AFTER, written
from tests.effects import effect_of

pytestmark = pytest.mark.xdist_group("e2e-changes")

AT_ONCE = 2
"""Previews that run side by side: each has a program, a provider and an engine."""


@dataclass(frozen=True)
class ObservedCases:
    """The engine's steps for each case, and steps that no case or several claim."""

    steps: Mapping[str, tuple[ObservedStep, ...]]
    strays: tuple[str, ...]


@dataclass(frozen=True)
class World:
    """The deployed fleet."""

    lab: Lab
    before: Mapping[str, Any]
    cases: tuple[Case, ...]

    def exported(self) -> dict[str, Any]:
        """The state as the engine exports it."""
        exported: dict[str, Any] = json.loads(
            (self.lab.root / ".gpufleet/state/sandbox/test.json").read_text()
        )
        return exported

    def guarded(self) -> set[tuple[str, str]]:
        """URN and id of all storage and reservations."""
        return {
            (each["urn"], each["id"])
            for each in self.exported()["deployment"]["resources"]
            if each["type"] in STORAGE | RESERVATIONS
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lab = Lab(tmp_path_factory.mktemp("changes"))
    try:
        held = lab.held()
        before = fleet(held)
        lab.run("up", lab.write("fleet", before))
        yield World(lab, before, tuple(all_cases(held)))
    finally:
        lab.stop()


@pytest.fixture(scope="module")
def seen(world: World) -> ObservedCases:
    """All cases previewed, disjoint ones together."""
    resources = [
        f"{each['type']} {each['urn'].rpartition('::')[2]}"
        for each in world.exported()["deployment"]["resources"]
    ]

    def preview(numbered: tuple[int, list[Case]]) -> tuple[list[Case], tuple[ObservedStep, ...]]:
        number, cases = numbered
        changes = {path: value for case in cases for path, value in case.changes.items()}
        file = world.lab.write(f"after{number}", changed(world.before, changes))
        return cases, world.lab.run("preview", file, cases[0].environment).steps

    steps: dict[str, tuple[ObservedStep, ...]] = {}
    strays: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for cases, taken in pool.map(preview, enumerate(rounds(world.cases, resources))):
            steps |= {str(case): tuple(step for step in taken if case.owns(step)) for case in cases}
            strays += [steps_text([step]) for step in taken if sum(case.owns(step) for case in cases) != 1]
    return ObservedCases(steps, tuple(strays))


@pytest.fixture(scope="module")
def of_racks(world: World) -> tuple[ObservedStep, ...]:
    """Effect on the cloud of changing every field of the rack sites."""
    (case,) = rack_cases()
    return world.lab.run("preview", world.lab.write("racks", changed(world.before, case.changes))).steps


def test_rack_changes_cover_every_field_of_a_rack() -> None:
    fields = {each.path for each in fleet_fields() if is_rack(each.path)}
    assert fields - written({"onprem": RACKS_AFTER}) == set()


def test_rack_fields_change_only_the_budget_of_the_cloud(of_racks: tuple[ObservedStep, ...]) -> None:
    """AWS Budgets watches what the racks leave of the budget."""
    assert [(step.how, step.type, step.diff) for step in of_racks] == [
        ("update", "aws:budgets/budget:Budget", {"limitAmount"})
    ], steps_text(of_racks)


def documented(case: Case) -> FieldChange:
    """What the table says of a case."""
    return next(each for each in CLOUD[case.path] if each.how == case.how)


def test_every_documented_change_is_tested(world: World) -> None:
    run = {(case.path, case.how) for case in world.cases}
    reported = {(path, change.how) for path, changes in CLOUD.items() for change in changes}
    assert reported - run == {("software.channel", "another channel")}
    assert run - reported == set()


def test_every_node_group_field_is_tested_with_both_schedulers(world: World) -> None:
    of_groups = [case for case in world.cases if case.path.startswith("cloud[].node_groups[]")]
    ran = Counter((case.path, case.how) for case in of_groups)
    assert len({case.scheduler for case in of_groups}) == len(SITES)
    once = {path for (path, _), times in ran.items() if times == 1}
    assert once == SLURM_ONLY | KUBERNETES_ONLY
    assert {times for (path, _), times in ran.items() if path not in once} == {len(SITES)}


def test_no_change_has_an_undocumented_effect(seen: ObservedCases) -> None:
    assert seen.strays == ()


def test_every_change_has_its_documented_effect(world: World, seen: ObservedCases) -> None:
    wrong = []
    for case in world.cases:
        reported = documented(case)
        expected = reported.in_slurm if case.scheduler == "slurm" else reported.effect
        observed = effect_of(seen.steps[str(case)])
        if observed is not expected:
            wrong.append(f"{case}: {observed}, documented {expected}: {steps_text(seen.steps[str(case)])}")
    assert wrong == []


def test_loss_of_data_or_a_reservation_is_documented_to_need_approval(
    world: World, seen: ObservedCases
) -> None:
    wrong = []
    for case in world.cases:
        steps = seen.steps[str(case)]
        approval = Approval.NONE
        if lost_data(steps) or lost_contents(steps):
            approval = Approval.DATA
        elif lost_reservations(steps):
            approval = Approval.RESERVATION
        if (
            case.path.startswith(("cloud[]", "fleet"))
            and _at_home(case)
            and approval != documented(case).approval
        ):
            wrong.append(f"{case}: {approval!r}, documented {documented(case).approval!r}")
    assert wrong == []


def _at_home(case: Case) -> bool:
    """Whether the site of the case has storage: changes of all sites run in a small one without."""
    return not any(path.startswith(("cloud[near]", "cloud[far]")) for path in case.changes)


def test_no_change_deletes_storage_without_the_flag(world: World, seen: ObservedCases) -> None:
    refused = 0
    for case in world.cases:
        steps = seen.steps[str(case)]
        if not lost_data(steps):
            continue
        refused += 1
        with pytest.raises(RefusedError, match="nothing has been changed") as error:
            refuse_data_loss(steps, allow_data_loss=False, exported=None, now=dt.datetime.now(dt.UTC))
        assert "--allow-data-loss" in error.value.remedy
    assert refused > 10


def test_up_matches_its_preview_and_keeps_storage_and_reservations(world: World, seen: ObservedCases) -> None:
    resources = [f"{step.type} {step.name}" for steps in seen.steps.values() for step in steps]
    gentle = [
        case
        for case in world.cases
        if not case.exclusive and effect_of(seen.steps[str(case)]) in (Effect.IN_PLACE, Effect.ROLLING)
    ]
    cases = max(rounds(gentle, resources), key=len)
    assert {effect_of(seen.steps[str(case)]) for case in cases} == {Effect.IN_PLACE, Effect.ROLLING}
    changes = {path: value for case in cases for path, value in case.changes.items()}
    file = world.lab.write("fleet", changed(world.before, changes))
    before, nodes = world.guarded(), _instances(world.lab)
    done = world.lab.run("up", file)
    foreseen = {step.urn: step.how for case in cases for step in seen.steps[str(case)]}
    taken = {step.urn: step.how for step in done.steps}
    assert taken.items() - foreseen.items() == set()
    # A wait for nodes is previewed if an input of it is not known yet.
    assert [urn for urn in foreseen.keys() - taken.keys() if ":NodesInService::" not in urn] == []
    assert before - world.guarded() == set()
    # Only nodes of groups that are documented to roll are new.
    rolled = {
        step.name for case in cases for step in seen.steps[str(case)] if effect_of([step]) is Effect.ROLLING
    }
    gone = {group for group, ids in nodes.items() if not ids <= _instances(world.lab).get(group, set())}
    assert gone == {group for group in nodes if group in rolled}


def _instances(lab: Lab) -> dict[str, set[str]]:
    """Ids of the running instances by the Name tag that their launch template gives them."""
    found: dict[str, set[str]] = {}
    for region in ("us-east-1", "us-west-2"):
        pages = lab.client("ec2", region).get_paginator("describe_instances").paginate()
        for page in pages:
            for reservation in page["Reservations"]:
                for one in reservation["Instances"]:
                    if one["State"]["Name"] != "running":
                        continue
                    name = next((tag["Value"] for tag in one.get("Tags", ()) if tag["Key"] == "Name"), "")
                    found.setdefault(name, set()).add(one["InstanceId"])
    return found
