"""From an engine's events to the steps of a change."""

from __future__ import annotations

from typing import Any

from gpufleet.engine.api import Op, ResourceEvent
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.verdict.steps import steps_of
from tests.unit.verdict.conftest import resource

OLD = resource("aws:s3/bucket:Bucket", "data", bucket="old")
NEW = resource("aws:s3/bucket:Bucket", "data", bucket="new")


def _event(op: Op, about: Resource = NEW, **values: Any) -> ResourceEvent:
    return ResourceEvent(
        **{"urn": about.urn, "type": about.type, "name": about.name, "op": op, "status": "done", **values}
    )


def test_three_steps_of_a_replacement_are_one_with_its_reasons() -> None:
    events = [
        _event(Op.CREATE_REPLACEMENT),
        _event(Op.REPLACE, diff=("bucket", "tags"), replace_keys=("bucket",)),
        _event(Op.DELETE_REPLACED),
    ]
    (step,) = steps_of(events, Stack([OLD]), Stack([NEW]))
    assert (step.operation, step.diff, step.replace_keys) == ("replace", ("bucket", "tags"), ("bucket",))
    assert (step.before, step.after) == (OLD, NEW)


def test_order_of_replacement_steps_does_not_matter() -> None:
    reported = _event(Op.REPLACE, replace_keys=("bucket",))
    for events in ([reported, _event(Op.CREATE_REPLACEMENT)], [_event(Op.CREATE_REPLACEMENT), reported]):
        (step,) = steps_of(events, Stack([OLD]), Stack([NEW]))
        assert step.replace_keys == ("bucket",)


def test_creation_has_no_before_and_deletion_no_after() -> None:
    (created,) = steps_of([_event(Op.CREATE)], Stack([]), Stack([NEW]))
    (deleted,) = steps_of([_event(Op.DELETE)], Stack([OLD]), Stack([]))
    assert (created.before, created.after) == (None, NEW)
    assert (deleted.before, deleted.after) == (OLD, None)


def test_renamed_resource_has_its_previous_one() -> None:
    renamed = resource("aws:s3/bucket:Bucket", "corpus", aliases=(OLD.urn,))
    (step,) = steps_of([_event(Op.SAME, renamed)], Stack([OLD]), Stack([renamed]))
    assert step.before is OLD


def test_failed_steps_the_stack_and_unknown_resources_are_not_steps() -> None:
    stack = resource("pulumi:pulumi:Stack", "gpufleet-prod")
    stranger = resource("pulumi:providers:aws", "default_7_0_0")
    events = [_event(Op.CREATE, status="failed"), _event(Op.SAME, stack), _event(Op.CREATE, stranger)]
    assert steps_of(events, Stack([stack]), Stack([stack, NEW])) == ()
