"""Random lifecycles of a stack: after any crash or failure the state is complete and the next run converges.

`LIFECYCLES` in the environment sets the number of lifecycles (a night is a few thousand).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from .lifecycles import Program, ResourceSpec, World, worlds

NAMES = "abcdef"
# The disk speed is not under test: use tmpfs if there is one.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
EXAMPLES = int(os.environ.get("LIFECYCLES", "60"))


@dataclass(frozen=True)
class LifecycleRun:
    """One run of a lifecycle: its program and faults."""

    verb: str
    program: Program
    faults: tuple[dict[str, Any], ...] = ()
    cut_at: int | None = None
    torn: float = 0.0
    lost: int | None = None


def places(before: int) -> st.SearchStrategy[tuple[int, ...]]:
    if not before:
        return st.just(())
    return st.lists(st.integers(0, before - 1), max_size=2, unique=True).map(tuple)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Up to six resources, each of which may depend on or belong to earlier ones."""
    wishes: list[ResourceSpec] = []
    for letter in draw(st.lists(st.sampled_from(NAMES), max_size=6, unique=True)):
        before = len(wishes)
        kind = draw(st.sampled_from(["Box", "Box", "Box", "Vague", "Group"]))
        # A renamed resource with an alias: every name has a former one.
        renamed = draw(st.booleans())
        boxes = [place for place in range(before) if wishes[place].kind != "Group"]
        wishes.append(
            ResourceSpec(
                name=f"{letter}2" if renamed else letter,
                former=letter if renamed else f"{letter}2",
                kind=kind,
                size=draw(st.integers(0, 2)),
                zone=draw(st.integers(0, 1)),
                slot=draw(st.integers(0, 1)),
                needs=tuple(place for place in draw(places(before)) if place in boxes),
                depends_on=draw(places(before)),
                parent=draw(st.none() | st.integers(0, before - 1)) if before else None,
                delete_first=draw(st.sampled_from([None, None, True, False])),
                replace_on_size=draw(st.booleans()) if kind != "Group" else False,
            )
        )
    return tuple(wishes)


faults = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["create", "update", "delete", "check", "diff", "read"]),
        "name": st.sampled_from([*NAMES, *(f"{letter}2" for letter in NAMES), "*"]),
        "made": st.booleans(),
        "message": st.sampled_from(["the cloud is full", "the connection is lost"]),
    }
).map(lambda fault: fault if "lost" in fault["message"] else {**fault, "made": False})

chapters = st.builds(
    LifecycleRun,
    verb=st.sampled_from(["up", "up", "up", "up", "refresh", "destroy", "preview"]),
    program=programs(),
    faults=st.lists(faults, max_size=2).map(tuple),
    cut_at=st.none() | st.integers(0, 40),
    torn=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    lost=st.none() | st.none() | st.integers(0, 5),
)


@pytest.fixture(scope="module")
def make_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], World]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
        with worlds(tmp_path_factory.mktemp("cloud"), patch) as make:
            yield make


@settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 60,
    database=None,
    # Shrinking a failing lifecycle takes minutes: `LIFECYCLES_SHRINK=1` enables it.
    phases=[Phase.generate, *([Phase.shrink] if os.environ.get("LIFECYCLES_SHRINK") else [])],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(life=st.lists(chapters, min_size=1, max_size=4))
def test_state_stays_whole_after_any_failure_and_the_next_run_converges(
    make_world: Callable[[Path], World], life: list[LifecycleRun]
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        world = make_world(Path(folder))
        something_lost = False
        for chapter in life:
            if chapter.lost is not None:
                world.lose(chapter.lost)
                something_lost = True
            world.program = chapter.program
            world.faults(list(chapter.faults))
            before = world.things()
            result = world.live(chapter.verb, chapter.cut_at, chapter.torn)
            event(f"{chapter.verb}: {'died' if result is None else 'ok' if result.ok else 'failed'}")
            if chapter.verb == "preview":
                assert world.things() == before
            world.check()
        world.converge(refreshed=something_lost)


# Every write of one lifecycle with all kinds of steps: a create, an update, both orders of replacement,
# a rename, a removal.
FIRST: Program = (
    ResourceSpec("a", slot=0),
    ResourceSpec("b", needs=(0,), zone=0),
    ResourceSpec("g", kind="Group"),
    ResourceSpec("c", needs=(0, 1), parent=2),
    ResourceSpec("d", size=1),
    ResourceSpec("e"),
)
SECOND: Program = (
    replace(FIRST[0], slot=1),
    replace(FIRST[1], zone=1),
    FIRST[2],
    replace(FIRST[3], name="c2", former="c", size=2),
    replace(FIRST[4], size=2),
    ResourceSpec("f", needs=(0,)),
)


@pytest.mark.parametrize("torn", [0.0, 1.0])
@pytest.mark.parametrize("verb", ["up", "destroy", "refresh"])
def test_run_can_be_killed_at_any_write(
    make_world: Callable[[Path], World], tmp_path: Path, verb: str, torn: float
) -> None:
    cut = 0
    while True:
        world = make_world(tmp_path / str(cut))
        world.program = FIRST
        world.faults([])
        first = world.live("up")
        assert first is not None
        assert first.ok
        world.program = SECOND
        died = world.live(verb, cut, torn) is None
        world.check()
        world.converge(refreshed=False)
        if not died:
            break
        cut += 1
    # A run of each verb writes more than the journal's first line and the checkpoint.
    assert cut >= {"up": 20, "destroy": 10, "refresh": 2}[verb]
