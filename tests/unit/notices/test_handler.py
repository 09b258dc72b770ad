"""From notices to nodes without work, on a fake Slurm."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from gpufleet.notices.cloud import Message
from gpufleet.notices.notes import Case, State
from gpufleet.notices.scheduler import DrainedNode, SchedulerError
from tests.unit.notices import events
from tests.unit.notices.events import NOW, instance_id, moment
from tests.unit.notices.world import World, world

ONE, TWO, THREE = map(instance_id, (1, 2, 3))


def audit(site: World) -> list[dict[str, object]]:
    return [json.loads(line) for line in (site.folder / "audit.jsonl").read_text().splitlines()]


def test_spot_notice_drains_the_node_and_signals_its_job(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1, 2]})
    site.send(events.spot(ONE))
    site.settle()
    assert site.slurm.log() == [["drain", "n001"], ["signal", "7"]]
    assert site.states() == {ONE: "signalled"}
    with site.slurm.state(write=False) as state:
        assert state["nodes"]["n001"]["reason"] == "gpufleet interruption: spot"


def test_job_is_requeued_when_it_acknowledges(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1, 2]})
    site.send(events.spot(ONE))
    site.settle()
    site.after(10)
    assert site.slurm.logged("requeue") == []
    site.acknowledge("7")
    site.after(2)
    assert site.slurm.logged("requeue") == ["7"]
    assert site.states() == {ONE: "done"}
    assert site.cloud.replaced == []
    assert "acknowledged-requeued" in site.metrics.text()


def test_job_without_an_answer_is_requeued_before_the_instance_ends(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]}, checkpoint_s=115)
    site.send(events.spot(ONE))
    site.settle()
    site.after(109)
    assert site.slurm.logged("requeue") == []
    site.after(1)
    assert site.slurm.logged("requeue") == ["7"]


def test_acknowledgement_from_before_the_signal_does_not_count(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.now -= 60
    site.acknowledge("7")
    site.now += 60
    site.send(events.spot(ONE))
    site.settle()
    site.after(5)
    assert site.slurm.logged("requeue") == []


def test_job_acknowledges_by_a_file(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]}, acknowledgements=str(tmp_path / "acks"))
    (tmp_path / "acks").mkdir()
    site.send(events.spot(ONE))
    site.settle()
    (tmp_path / "acks" / "7").touch()
    # The clock of the test is ahead of the file system's.
    os.utime(tmp_path / "acks" / "7", (site.now, site.now))
    site.after(2)
    assert site.slurm.logged("requeue") == ["7"]


def test_job_on_several_interrupted_nodes_is_signalled_and_requeued_once(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1, 2, 3], "8": [4]})
    site.send(events.spot(ONE, id="a"), events.spot(TWO, id="b"))
    site.settle()
    site.send(events.spot(THREE, id="c"))
    site.settle()
    site.acknowledge("7")
    site.after(2)
    assert site.slurm.logged("signal") == ["7"]
    assert site.slurm.logged("requeue") == ["7"]
    assert set(site.states().values()) == {"done"}


def test_job_that_ends_by_itself_is_left_alone(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.send(events.spot(ONE))
    site.settle()
    with site.slurm.state() as state:
        del state["jobs"]["7"]
    site.after(2)
    assert site.slurm.logged("requeue") == []
    assert site.states() == {ONE: "done"}


def test_job_that_may_not_be_requeued_is_left_to_its_node(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    with site.slurm.state() as state:
        state["jobs"]["7"]["requeue"] = False
    site.send(events.spot(ONE))
    site.settle()
    site.acknowledge("7")
    site.after(2)
    assert "not requeueable" in str(audit(site))
    assert site.states() == {ONE: "done"}


def test_recommendation_only_stops_new_work_until_the_notice_comes(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.send(events.rebalance(ONE, id="a"))
    site.settle()
    assert (site.slurm.log(), site.states()) == ([["drain", "n001"]], {ONE: "cordoned"})
    site.send(events.spot(ONE, id="b"))
    site.settle()
    assert site.slurm.log() == [["drain", "n001"], ["signal", "7"]]


def test_recommendation_moves_jobs_where_the_fleet_file_says_so(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]}, rebalance="drain")
    site.send(events.rebalance(ONE))
    site.settle()
    site.acknowledge("7")
    site.after(2)
    assert site.slurm.logged("requeue") == ["7"]
    assert site.cloud.replaced == [ONE]


def test_recommendation_after_the_notice_changes_nothing(tmp_path: Path) -> None:
    site = world(tmp_path)
    site.send(events.spot(ONE, id="a"), events.rebalance(ONE, id="b"))
    site.settle()
    assert site.slurm.log() == [["drain", "n001"]]
    assert site.states() == {ONE: "done"}


def test_jobs_run_on_until_shortly_before_a_maintenance(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.send(events.maintenance(ONE, starts=moment(NOW + 86_400)))
    site.settle()
    site.after(80_000)
    assert site.slurm.log() == [["drain", "n001"]]
    site.after(3_000)
    assert site.slurm.logged("signal") == ["7"]
    site.acknowledge("7")
    site.after(2)
    assert (site.slurm.logged("requeue"), site.cloud.replaced) == (["7"], [ONE])


def test_maintenance_that_is_called_off_gives_the_node_back(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.send(events.maintenance(ONE, starts=moment(NOW + 86_400), id="a"))
    site.settle()
    site.send(events.maintenance(ONE, starts="", status="closed", id="b"))
    site.settle()
    assert site.slurm.log() == [["drain", "n001"], ["resume", "n001"]]
    site.send(events.maintenance(ONE, starts=moment(NOW + 900), id="c"))
    site.settle()
    assert site.slurm.logged("signal") == ["7"]


def spot_world(
    folder: Path, jobs: dict[str, Sequence[int]] | None = None, nodes: int = 4, **changes: object
) -> World:
    """A world whose instances are all spot."""
    site = world(folder, nodes, jobs, **changes)
    for name, each in site.cloud.known_instances.items():
        site.cloud.known_instances[name] = dataclasses.replace(each, spot=True)
    return site


def test_node_of_a_spent_budget_ends_after_its_jobs_and_its_group_shrinks(tmp_path: Path) -> None:
    site = spot_world(tmp_path, jobs={"7": [1, 2], "8": [3]})
    site.send(events.budget(ONE))
    site.settle()
    assert site.slurm.log() == [["drain", "n001"], ["signal", "7"]]
    site.after(10)
    assert site.cloud.removed == []
    site.acknowledge("7")
    site.after(2)
    assert site.slurm.logged("requeue") == ["7"]
    assert (site.cloud.removed, site.cloud.replaced) == ([ONE], [])


def test_job_without_an_answer_keeps_its_node_until_its_time_is_up(tmp_path: Path) -> None:
    site = spot_world(tmp_path, jobs={"7": [1]})
    site.send(events.budget(ONE))
    site.settle()
    site.after(89)
    assert site.cloud.removed == []
    site.after(2)
    assert (site.slurm.logged("requeue"), site.cloud.removed) == (["7"], [ONE])


def test_instance_of_a_spent_budget_that_is_not_spot_is_left(tmp_path: Path) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.send(events.budget(ONE))
    site.settle()
    assert site.slurm.log() == []
    assert site.states() == {ONE: "left"}
    assert audit(site)[-1]["reason"] == "not spot"


def test_instance_that_still_starts_drains_when_it_has_joined(tmp_path: Path) -> None:
    site = spot_world(tmp_path)
    late = dataclasses.replace(site.cloud.known_instances[ONE], address="10.9.9.9", dns_name="x")
    site.cloud.known_instances["i-000000000000000ff"] = dataclasses.replace(late, id="i-000000000000000ff")
    site.send(events.budget("i-000000000000000ff"))
    site.settle()
    assert (site.states(), site.cloud.removed) == ({"i-000000000000000ff": "new"}, [])
    site.cloud.known_instances["i-000000000000000ff"] = dataclasses.replace(
        site.cloud.known_instances[ONE], id="i-000000000000000ff"
    )
    site.after(60)
    assert site.slurm.logged("drain") == ["n001"]
    assert site.cloud.removed == ["i-000000000000000ff"]


def test_instance_that_never_joins_ends_without_a_node(tmp_path: Path) -> None:
    site = spot_world(tmp_path)
    for name, each in site.cloud.known_instances.items():
        site.cloud.known_instances[name] = dataclasses.replace(each, address="10.9.9.9", dns_name="x")
    site.send(events.budget(ONE))
    site.settle()
    assert site.cloud.removed == []
    site.after(20 * 60)
    assert (site.slurm.log(), site.cloud.removed) == ([], [ONE])


def test_resumed_budget_gives_the_node_back_and_moves_no_job(tmp_path: Path) -> None:
    site = spot_world(tmp_path, jobs={"7": [1, 2]})
    site.send(events.budget(ONE, id="a"))
    site.settle()
    site.now += 5
    site.send(events.budget(ONE, state="resumed", at=site.now, id="b"))
    site.settle()
    site.after(600)
    assert site.slurm.log() == [["drain", "n001"], ["signal", "7"], ["resume", "n001"]]
    assert (site.cloud.removed, site.states()) == ([], {ONE: "left"})
    # Spent again: all from the start.
    site.send(events.budget(ONE, at=site.now, id="c"))
    site.settle()
    assert site.slurm.log()[3:] == [["drain", "n001"], ["signal", "7"]]
    site.after(91)
    assert site.cloud.removed == [ONE]


def test_notice_from_before_the_budget_was_resumed_changes_nothing(tmp_path: Path) -> None:
    site = spot_world(tmp_path, jobs={"7": [1]})
    sent = site.now
    site.now += 60
    site.send(events.budget(ONE, state="resumed", at=site.now, id="b"))
    site.intake.take([Message(events.budget(ONE, at=sent, id="a"), "late", sent)])
    site.after(600)
    assert (site.slurm.log(), site.cloud.removed) == ([], [])


def test_spot_notice_during_the_drain_of_a_budget_goes_first_and_is_not_resumed(tmp_path: Path) -> None:
    site = spot_world(tmp_path, jobs={"7": [1]})
    site.send(events.budget(ONE, id="a"))
    site.settle()
    site.now += 5
    site.send(events.spot(ONE, at=site.now, id="b"))
    site.send(events.budget(ONE, state="resumed", at=site.now, id="c"))
    site.after(200)
    assert site.slurm.logged("resume") == []
    assert (site.slurm.logged("requeue"), site.cloud.removed) == (["7"], [])


def test_drain_by_somebody_else_keeps_its_reason_and_is_not_taken_back(tmp_path: Path) -> None:
    site = world(tmp_path)
    with site.slurm.state() as state:
        state["nodes"]["n001"] |= {"state": "IDLE+DRAIN", "reason": "fan broken"}
    site.send(events.maintenance(ONE, starts=moment(NOW + 86_400), id="a"))
    site.settle()
    site.send(events.maintenance(ONE, starts="", status="closed", id="b"))
    site.settle()
    assert site.slurm.log() == []


def test_end_of_a_block_concerns_its_instances(tmp_path: Path) -> None:
    site = world(tmp_path)
    site.cloud.reservations = {"cr-0123456789abcdef0": [ONE, THREE]}
    site.send(events.block_end("cr-0123456789abcdef0", moment(NOW + 2400)))
    site.settle()
    assert site.slurm.logged("drain") == ["n001", "n003"]


def test_instances_of_others_and_ended_ones_are_left(tmp_path: Path) -> None:
    site = world(tmp_path)
    site.cloud.known_instances[TWO] = dataclasses.replace(site.cloud.known_instances[TWO], alive=False)
    site.send(events.spot(instance_id(99), id="a"), events.spot(TWO, id="b"))
    site.settle()
    assert site.slurm.log() == []
    assert set(site.states().values()) == {"left"}
    assert {line["reason"] for line in audit(site) if line["event"] == "left"} == {"foreign", "gone"}


def test_message_leaves_the_queue_only_when_its_node_is_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = world(tmp_path)

    def broken(*_: object) -> None:
        raise SchedulerError("slurmctld does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(site.handler.scheduler, "drain", broken)
        site.send(events.spot(ONE))
        site.settle()
        assert site.cloud.deleted == []
    site.after(1)
    assert len(site.cloud.deleted) == 1
    assert site.slurm.logged("drain") == ["n001"]


def test_useless_messages_leave_the_queue_at_once(tmp_path: Path) -> None:
    site = world(tmp_path)
    site.send("no json", events.spot(ONE, account="210987654321"))
    assert len(site.cloud.deleted) == 2
    site.settle()
    assert site.slurm.log() == []
    assert 'outcome="malformed"} 1' in site.metrics.text()


def test_one_bad_node_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = world(tmp_path, nodes=8)
    scheduler, seen = site.handler.scheduler, site.handler.scheduler.nodes
    ghost = {TWO: "ghost"}
    monkeypatch.setattr(scheduler, "nodes", lambda asked: dict(seen(asked)) | ghost)
    site.send(*(events.spot(instance_id(number), id=str(number)) for number in range(1, 9)))
    site.settle()
    assert sorted(site.slurm.logged("drain")) == ["n001", "n003", "n004", "n005", "n006", "n007", "n008"]
    assert site.states()[TWO] == "found"


@pytest.mark.parametrize("seed", range(20))
def test_each_node_is_handled_once_whatever_comes_and_whenever_it_is_killed(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    site = world(tmp_path, nodes=30, jobs={str(job): [job, job + 10, job + 20] for job in range(1, 11)})
    hit = random.sample(range(1, 31), 18)
    bodies = [events.spot(instance_id(number), id=f"s{number}") for number in hit]
    bodies += random.choices(bodies, k=12)
    bodies += [events.rebalance(instance_id(number), id=f"r{number}") for number in hit[:6]]
    bodies += ["{", events.spot(instance_id(500), id="foreign"), events.spot(ONE, account="1", id="other")]
    random.shuffle(bodies)
    while bodies:
        taken, bodies = bodies[:5], bodies[5:]
        site.send(*taken)
        if random.random() < 0.3:
            # Killed before the messages were deleted: they come again.
            bodies += taken
            site.restart()
        if random.random() < 0.5:
            site.handler.round()
        site.now += random.random()
    site.settle()
    for job in range(1, 11):
        site.acknowledge(str(job))
    site.after(3)
    expected = sorted(f"n{number:03d}" for number in hit)
    assert sorted(site.slurm.logged("drain")) == expected
    jobs = sorted({str((number - 1) % 10 + 1) for number in hit})
    assert sorted(site.slurm.logged("signal")) == sorted(site.slurm.logged("requeue")) == jobs
    assert set(site.states().values()) <= {"done", "left"}


def test_node_that_is_drained_and_unknown_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    found = [DrainedNode(ONE, "n001", "maintenance", NOW + 7200)]
    monkeypatch.setattr(site.handler.scheduler, "drained", lambda: found)
    site.handler.restore()
    site.handler.restore()
    site.settle()
    assert (site.slurm.log(), site.states()) == ([], {ONE: "drained"})
    site.after(3600)
    assert site.slurm.log() == [["signal", "7"]]


def test_old_notice_is_not_believed_about_an_instance_that_may_have_ended(tmp_path: Path) -> None:
    site = world(tmp_path)
    site.cloud.remembered = dict(site.cloud.known_instances)
    site.cloud.known_instances = {}
    site.send(events.spot(ONE, id="a"))
    site.settle()
    assert site.slurm.logged("drain") == ["n001"]
    site.send(events.spot(TWO, id="b"))
    site.now += 61
    site.settle()
    assert site.states()[TWO] == "left"


def meanwhile(site: World, patch: pytest.MonkeyPatch, state: str, body: str) -> None:
    """Let a notice come after the handler has read the cases of a state, and before it writes their step."""
    read, waiting = site.notes.due, [body]

    def due(asked: State, now: float, limit: int = 500) -> list[Case]:
        found = read(asked, now, limit)
        if asked == state and found and waiting:
            site.send(waiting.pop())
        return found

    patch.setattr(site.notes, "due", due)


@pytest.mark.parametrize("state", ["new", "found"])
def test_spot_warning_during_the_cordon_of_a_recommendation_is_not_lost(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    meanwhile(site, monkeypatch, state, events.spot(ONE, id="b"))
    site.send(events.rebalance(ONE, id="a"))
    site.settle()
    assert site.slurm.log() == [["drain", "n001"], ["signal", "7"]]
    assert site.states() == {ONE: "signalled"}


def test_spot_warning_while_a_maintenance_is_far_is_not_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = world(tmp_path, jobs={"7": [1]})
    site.send(events.maintenance(ONE, starts=moment(NOW + 86_400), id="a"))
    site.settle()
    meanwhile(site, monkeypatch, "drained", events.spot(ONE, id="b"))
    site.send(events.maintenance(ONE, starts=moment(NOW + 80_000), id="c"))
    site.settle()
    site.after(1)
    assert site.slurm.logged("signal") == ["7"]
