"""Storage and reservations are not deleted without approval."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from msgspec import structs

from gpufleet.changes.guard import GUARDED, STORAGE, is_guarded, refuse_data_loss, refuse_destroying_data
from gpufleet.changes.observe import ObservedStep
from gpufleet.errors import ExitCode, RefusedError
from gpufleet.resources.types import (
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    LUSTRE,
)

NOW = dt.datetime(2026, 9, 15, tzinfo=dt.UTC)


def step(kind: str, how: str) -> ObservedStep:
    keys = frozenset({"zone"} if how == "replace" else ())
    return ObservedStep("urn:one", kind, "one", how, keys | {"tags"}, keys)


def state(kind: str, **outputs: Any) -> dict[str, Any]:
    return {"deployment": {"resources": [{"type": kind, "urn": "urn:one", "outputs": outputs}]}}


@pytest.mark.parametrize("kind", sorted(STORAGE))
@pytest.mark.parametrize("how", ["delete", "replace"])
def test_storage_is_deleted_only_with_the_flag(kind: str, how: str) -> None:
    with pytest.raises(RefusedError, match=r"one \(") as error:
        refuse_data_loss([step(kind, how)], allow_data_loss=False, exported=None, now=NOW)
    assert error.value.exit_code is ExitCode.REFUSED
    refuse_data_loss([step(kind, how)], allow_data_loss=True, exported=None, now=NOW)


PRIORITY, NAMESPACE, CLUSTER = (
    "kubernetes:scheduling.k8s.io/v1:PriorityClass",
    "kubernetes:core/v1:Namespace",
    "aws:eks/cluster:Cluster",
)


def inside(kind: str, how: str, *forced: str) -> ObservedStep:
    return ObservedStep("urn:in", kind, "atlas-dev-use1-base-x", how, frozenset(forced), frozenset(forced))


@pytest.mark.parametrize(
    "lost",
    [inside(PRIORITY, "delete"), inside(NAMESPACE, "replace", "provider")],
    ids=["phased", "another way"],
)
def test_contents_of_a_cluster_that_stays_are_deleted_only_with_the_flag(lost: ObservedStep) -> None:
    with pytest.raises(RefusedError, match=r"atlas-dev-use1-base-x \(") as error:
        refuse_data_loss([lost], allow_data_loss=False, exported=None, now=NOW)
    assert "kubernetes.access" in error.value.remedy
    refuse_data_loss([lost], allow_data_loss=True, exported=None, now=NOW)
    for how in ("delete", "replace"):
        gone = ObservedStep("urn:c", CLUSTER, "atlas-dev-use1", how)
        refuse_data_loss([lost, gone], allow_data_loss=False, exported=None, now=NOW)
    other = ObservedStep("urn:c", CLUSTER, "atlas-dev-usw2", "delete")
    with pytest.raises(RefusedError):
        refuse_data_loss([lost, other], allow_data_loss=False, exported=None, now=NOW)


def test_removed_team_and_changed_contents_are_not_guarded() -> None:
    steps = [
        inside(NAMESPACE, "delete"),
        inside(NAMESPACE, "replace", "metadata"),
        inside(PRIORITY, "update"),
    ]
    refuse_data_loss(steps, allow_data_loss=False, exported=None, now=NOW)
    assert is_guarded(state(PRIORITY))


@pytest.mark.parametrize("how", ["create", "update"])
def test_changes_to_other_resources_are_not_guarded(how: str) -> None:
    steps = [step(kind, how) for kind in GUARDED] + [step("aws:eks/nodeGroup:NodeGroup", "replace")]
    refuse_data_loss(steps, allow_data_loss=False, exported=None, now=NOW)


@pytest.mark.parametrize("kind", [CAPACITY_BLOCK, CAPACITY_RESERVATION])
def test_reservation_is_never_replaced_even_with_the_flag(kind: str) -> None:
    with pytest.raises(RefusedError, match="reserved capacity") as error:
        refuse_data_loss([step(kind, "replace")], allow_data_loss=True, exported=None, now=NOW)
    assert "remove its group from the fleet file in a separate run" in error.value.remedy


def test_reservation_is_deleted_with_its_removed_group() -> None:
    refuse_data_loss([step(CAPACITY_RESERVATION, "delete")], allow_data_loss=False, exported=None, now=NOW)


@pytest.mark.parametrize("kind", [CAPACITY_BLOCK, CAPACITY_RESERVATION])
def test_reservation_is_not_deleted_in_the_run_that_creates_another(kind: str) -> None:
    renamed = [step(kind, "delete"), structs.replace(step(kind, "create"), urn="urn:other", name="other")]
    with pytest.raises(
        RefusedError, match=r"releases reserved capacity to request other capacity: one \("
    ) as error:
        refuse_data_loss(renamed, allow_data_loss=True, exported=None, now=NOW)
    assert "other (" not in error.value.message
    over = state(kind, endDate="2026-09-14T11:30:00Z")
    refuse_data_loss(renamed, allow_data_loss=False, exported=over, now=NOW)
    refuse_data_loss(renamed[1:], allow_data_loss=False, exported=None, now=NOW)


def test_reservation_of_another_kind_can_follow_a_removed_one() -> None:
    steps = [step(CAPACITY_RESERVATION, "delete"), step(CAPACITY_BLOCK, "create")]
    refuse_data_loss(steps, allow_data_loss=False, exported=None, now=NOW)


def test_expired_block_can_be_replaced() -> None:
    over = state(CAPACITY_BLOCK, endDate="2026-09-14T11:30:00Z")
    refuse_data_loss([step(CAPACITY_BLOCK, "replace")], allow_data_loss=False, exported=over, now=NOW)
    running = state(CAPACITY_BLOCK, endDate="2026-09-16T11:30:00Z")
    with pytest.raises(RefusedError):
        refuse_data_loss([step(CAPACITY_BLOCK, "replace")], allow_data_loss=False, exported=running, now=NOW)


def test_reason_for_a_replacement_is_named_without_other_changes() -> None:
    with pytest.raises(RefusedError, match=r"one \(fsx\.LustreFileSystem, replaced because of zone\)"):
        refuse_data_loss([step(LUSTRE, "replace")], allow_data_loss=False, exported=None, now=NOW)


def test_many_losses_are_listed_in_part_and_counted_in_full() -> None:
    with pytest.raises(RefusedError, match="and 3 more"):
        refuse_data_loss([step(LUSTRE, "delete")] * 8, allow_data_loss=False, exported=None, now=NOW)


def test_stack_with_storage_is_destroyed_only_with_the_flag() -> None:
    with pytest.raises(RefusedError, match=r"2 x fsx\.LustreFileSystem"):
        refuse_destroying_data({LUSTRE: 2, CAPACITY_RESERVATION: 1}, allow_data_loss=False)
    refuse_destroying_data({LUSTRE: 2}, allow_data_loss=True)
    refuse_destroying_data({CAPACITY_RESERVATION: 1}, allow_data_loss=False)


def test_destroy_is_guarded_by_the_resources_of_the_stack() -> None:
    assert is_guarded(state(LUSTRE))
    assert not is_guarded(state("aws:ec2/vpc:Vpc"))
    assert not is_guarded(None)


def test_extended_block_has_not_ended() -> None:
    def held(kind: str, suffix: str, end: str) -> dict[str, Any]:
        urn = f"urn:pulumi:prod::gpufleet::gpufleet:capacity:CapacityBlock${kind}::block{suffix}"
        return {"urn": urn, "type": kind, "outputs": {"end_date": end}}

    offering = held(BLOCK_OFFERING, "", "2026-09-14T11:30:00Z")
    over = {"deployment": {"resources": [offering]}}
    replaced = ObservedStep(offering["urn"], BLOCK_OFFERING, "block", "replace")
    refuse_data_loss([replaced], allow_data_loss=False, exported=over, now=NOW)
    extended = held(BLOCK_EXTENSION, "-extension-1", "2026-09-21T11:30:00Z")
    running = {"deployment": {"resources": [offering, extended]}}
    with pytest.raises(RefusedError, match="reserved capacity"):
        refuse_data_loss([replaced], allow_data_loss=False, exported=running, now=NOW)


def test_bought_extension_is_not_replaced_by_another() -> None:
    with pytest.raises(RefusedError, match="reserved capacity"):
        refuse_data_loss([step(BLOCK_EXTENSION, "replace")], allow_data_loss=True, exported=None, now=NOW)
