"""The same program and provider on the embedded engine and on the real Pulumi CLI: equal steps, equal states.

Runs where `pulumi` is on PATH (it is in no package registry, so no test set-up can bring it).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conftest import Lab
from .comparing import comparable, left, needs_cli, normal, planned
from .scenarios import SCENARIOS, Scenario

pytestmark = needs_cli


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_engines_do_the_same_and_leave_the_same_state(
    scenario: Scenario, cli: Lab, tmp_path: Path
) -> None:
    ours = Lab(tmp_path / "embedded")
    for lab in (ours, cli):
        lab.configure(config=scenario.config, secret_config=scenario.secret)
    for number, (verb, text) in enumerate(scenario.steps):
        results = []
        for lab in (ours, cli):
            if text is not None:
                lab.program(text)
            results.append(lab.run(verb))
        mine, theirs = results
        where = f"step {number} ({verb})"
        assert (mine.ok, theirs.ok) == (number not in scenario.fails,) * 2, (where, mine, theirs)
        assert mine.changes == theirs.changes, where
        assert sorted(ours.real_steps()) == sorted(cli.real_steps()), where
        assert planned(mine) == planned(theirs), where
        assert normal(mine.outputs) == normal(theirs.outputs) or verb in ("preview", "destroy"), where
        assert left(ours) == left(cli), where
        assert ours.names() == cli.names(), where


def test_both_engines_detect_the_same_drift(cli: Lab, tmp_path: Path) -> None:
    text = """
        a = Box("a", {"size": 1})
        b = Box("b", {"of": a.arn}, Opts(parent=a))
        Box("c", {"size": 1}, Opts(deleted_with=a, depends_on=[a, b]))
        Box("d", {"size": 1, "password": pulumi.Output.secret("s")})
    """
    ours = Lab(tmp_path / "embedded")
    for lab in (ours, cli):
        lab.up(text)
        (lab.cloud / "things" / f"{lab.resources()['a']['id']}.json").unlink()
        changed = lab.cloud / "things" / f"{lab.resources()['d']['id']}.json"
        thing = json.loads(changed.read_text())
        changed.write_text(json.dumps({**thing, "inputs": {**thing["inputs"], "size": 7}}))
    for verb in ("refresh", "preview", "up", "destroy"):
        mine, theirs = ours.run(verb), cli.run(verb)
        assert (mine.ok, theirs.ok) == (True, True), verb
        assert mine.changes == theirs.changes, verb
        assert sorted(ours.real_steps()) == sorted(cli.real_steps()), verb
        assert comparable(ours.export()) == comparable(cli.export()), verb
        assert ours.names() == cli.names(), verb
