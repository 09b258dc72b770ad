"""checkov judges prod's resources, and finds nothing that gpufleet's rules miss."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpufleet.resources.stack import Stack
from tests.collected import ROOT, Violations, collect, violations
from tests.judges.broken import BROKEN, OURS_ALONE, FailingCase
from tests.judges.checkov import Verdict, judge
from tests.judges.disagreements import ACCEPTED, accepted
from tests.previewed import preview_environment

pytestmark = pytest.mark.xdist_group("checkov")

WANTED = {
    f"CKV_AWS_{number}"
    for number in (7, 19, 20, 21, 24, 25, 37, 38, 39, 46, 57, 58, 62, 66, 79, 88, 100, 130, 158, 190)
} | {"CKV_AWS_277", "CKV_AWS_339", "CKV_AWS_341"}
"""Checks for types that prod has; others would have nothing to judge."""


@pytest.fixture(scope="session")
def created() -> Stack:
    """Prod with every value known, whole IAM policies too."""
    return collect("prod")


@pytest.fixture(scope="session")
def verdicts(created: Stack) -> Mapping[str, Verdict]:
    """checkov's verdicts on prod, as previewed and as created, and on each broken copy: one process."""
    stacks = {"previewed": preview_environment(ROOT, "prod").stack, "created": created}
    for broken in (*BROKEN, *OURS_ALONE):
        whole, copy = broken.of(created)
        # A check of one resource needs no other; a graph check needs all.
        stacks[broken.name] = whole if broken.graph or broken.without else Stack([copy])
    return judge(stacks)


@pytest.fixture(scope="session")
def base(created: Stack) -> Violations:
    """Violations of gpufleet's rules in prod."""
    return violations("prod", created)


@pytest.mark.parametrize("which", ["previewed", "created"])
def test_checkov_finds_only_recorded_disagreements_on_prod(
    which: str, verdicts: Mapping[str, Verdict]
) -> None:
    unexplained = {each for each in verdicts[which].failed if accepted(*each) is None}
    assert unexplained == set()


def test_every_recorded_disagreement_still_exists(verdicts: Mapping[str, Verdict]) -> None:
    fired = {accepted(*each) for verdict in verdicts.values() for each in verdict.failed}
    assert set(ACCEPTED) - fired == set()


@pytest.mark.fresh
@pytest.mark.parametrize("which", ["previewed", "created"])
def test_checkov_runs_the_checks_that_matter_to_prod(which: str, verdicts: Mapping[str, Verdict]) -> None:
    assert WANTED - verdicts[which].checks == set()


def test_gpufleet_rules_find_nothing_on_prod(base: Violations) -> None:
    assert base == frozenset()


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_failed_checkov_check_also_breaks_a_gpufleet_rule(
    broken: FailingCase, verdicts: Mapping[str, Verdict], created: Stack, base: Violations
) -> None:
    assert broken.check in verdicts[broken.name].failed_checks, "checkov has no result"
    whole, _ = broken.of(created)
    assert violations("prod", whole) - base, f"{broken.check} fails and no gpufleet rule does"


@pytest.mark.parametrize("broken", OURS_ALONE, ids=lambda broken: broken.name)
def test_gpufleet_rules_find_what_checkov_misses(
    broken: FailingCase, verdicts: Mapping[str, Verdict], created: Stack, base: Violations
) -> None:
    assert broken.check not in verdicts[broken.name].failed_checks, "checkov finds it now: update the record"
    whole, _ = broken.of(created)
    assert violations("prod", whole) - base
