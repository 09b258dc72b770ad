"""Both engines leave the same state after a failed step, and continue alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import Lab
from .comparing import comparable, finished, left, needs_cli

pytestmark = needs_cli


def test_both_engines_finish_what_does_not_depend_on_a_failure(cli: Lab, tmp_path: Path) -> None:
    ours = Lab(tmp_path / "embedded")
    for lab in (ours, cli):
        lab.fault("create", "a", message="the cloud is full")
        lab.program('a = Box("a")\nBox("b", {"of": a.arn})\nBox("other")\n')
    mine, theirs = ours.run("up"), cli.run("up")
    assert (mine.ok, theirs.ok) == (False, False)
    assert mine.changes == theirs.changes
    assert ours.names() == cli.names() == ["other"]
    assert ours.errors()["a"] == cli.errors()["a"] == "the cloud is full"
    assert comparable(ours.export()) == comparable(cli.export())


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
def test_both_engines_leave_the_same_state_after_a_failure_and_finish_it(
    cli: Lab, tmp_path: Path, verb: str
) -> None:
    before = 'a = Box("a", {"size": 1})\nBox("b", {"of": a.arn})\nBox("old")\n'
    after = 'a = Box("a", {"size": 2})\nBox("b", {"of": a.arn})\nc = Box("c")\nBox("d", {"of": c.arn})\n'
    if verb != "delete":
        # With --continue-on-error the CLI deletes what a failed program no longer registers. We leave it
        # to the next run: a resource may be missing only because another one failed.
        after += 'Box("old")\n'
    ours = Lab(tmp_path / "embedded")
    for lab in (ours, cli):
        lab.up(before)
        lab.program(after)
        lab.fault(verb, {"create": "c", "update": "a", "delete": "old"}[verb], message="not now")
    mine, theirs = ours.run("up"), cli.run("up")
    assert (mine.ok, theirs.ok) == (False, False)
    assert ours.names() == cli.names()
    assert comparable(ours.export()) == comparable(cli.export())
    for lab in (ours, cli):
        lab.no_faults()
    mine, theirs = ours.up(), cli.up()
    assert mine.changes == theirs.changes
    assert sorted(ours.real_steps()) == sorted(cli.real_steps())
    assert comparable(ours.export()) == comparable(cli.export())


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        pytest.param(
            'a = Box("a", {"zone": "x"})\nBox("b", {"of": a.arn})\n',
            'a = Box("a", {"zone": "y"})\nBox("b", {"of": a.arn})\n',
            ("delete", {"message": "in use"}),
            id="the old one of a replacement is not deleted",
        ),
        pytest.param(
            'a = Box("a", {"zone": "x"})\nBox("b", {"of": a.arn})\n',
            'a = Box("a", {"zone": "y"})\nBox("b", {"of": a.arn})\n',
            ("create", {"message": "the cloud is full"}),
            id="the new one of a replacement is not made",
        ),
        # Not a failed deletion before a replacement: with --continue-on-error the CLI 3.260 hangs.
        pytest.param(
            'a = Box("a", {"slot": 1})\nBox("b", {"slot": a.arn})\n',
            'a = Box("a", {"slot": 2})\nBox("b", {"slot": a.arn})\n',
            ("create", {"message": "the cloud is full"}),
            id="what was deleted first is not made again",
        ),
        pytest.param(
            'Box("z")\n',
            'Box("z")\na = Box("a", {"size": 1})\nBox("b", {"of": a.arn})\n',
            ("create", {"init": "it never answered"}),
            id="a new one does not come up",
        ),
        pytest.param(
            'Box("z")\n',
            'Box("z")\nBox("a", {"size": 1}, Opts(replace_on_changes=["*"]))\n',
            ("create", {"init": "it never answered"}),
            id="a new one does not initialize and is created again",
        ),
        pytest.param(
            'Box("a", {"size": 1})\n',
            'Box("a", {"size": 2})\n',
            ("check", {"message": "no check today"}),
            id="the inputs cannot be checked",
        ),
    ],
)
def test_both_engines_continue_alike_from_a_failed_step(
    cli: Lab, tmp_path: Path, before: str, after: str, fault: tuple[str, dict[str, str]]
) -> None:
    ours = Lab(tmp_path / "embedded")
    for lab in (ours, cli):
        lab.up(before)
        lab.program(after)
        lab.fault(fault[0], "a", **fault[1])
    mine, theirs = ours.run("up"), cli.run("up")
    assert (mine.ok, theirs.ok) == (False, False)
    assert ours.names() == cli.names()
    assert left(ours) == left(cli)
    for lab in (ours, cli):
        lab.no_faults()
    mine, theirs = ours.up(), cli.up()
    assert mine.changes == theirs.changes
    assert finished(ours) == finished(cli)
    assert left(ours) == left(cli)
    assert ours.names() == cli.names()
    assert ours.up().changes.total == cli.up().changes.total == 0


def test_both_engines_keep_resources_that_a_failed_refresh_could_not_read(cli: Lab, tmp_path: Path) -> None:
    ours = Lab(tmp_path / "embedded")
    for lab in (ours, cli):
        lab.up('Box("a", {"size": 1})\nBox("b", {"size": 1})\n')
        lab.fault("read", "a", message="not now", times=9)
    mine, theirs = ours.run("refresh"), cli.run("refresh")
    assert (mine.ok, theirs.ok) == (False, False)
    assert left(ours) == left(cli)
    for lab in (ours, cli):
        lab.no_faults()
    mine, theirs = ours.run("refresh"), cli.run("refresh")
    assert (mine.ok, theirs.ok) == (True, True)
    assert left(ours) == left(cli)
