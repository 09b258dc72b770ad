"""docs/reference/preflight.md, and that it has every rule and quota."""

from __future__ import annotations

import re
from pathlib import Path

from gpufleet.account import action_table
from gpufleet.account.reference import preflight_reference

ROOT = Path(__file__).resolve().parents[3]


def test_page_is_current() -> None:
    written = (ROOT / "docs" / "reference" / "preflight.md").read_text(encoding="utf-8")
    assert written == preflight_reference(), "run `make docs`"


def test_page_has_every_rule() -> None:
    page = preflight_reference()
    rules: set[str] = set()
    for file in (ROOT / "gpufleet" / "account").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        rules |= set(re.findall(r'AccountFinding\(\s*(?:rule=)?"([a-z-]+)"', text))
        rules |= {
            f"reservation-{field or 'state'}" for field in re.findall(r' finding\(\s*"([a-z_]*)"', text)
        }
    assert {"quota", "eks-zone", "permission", "reservation-nodes"} <= rules
    assert [rule for rule in sorted(rules) if f"`{rule}`" not in page] == []


def test_page_has_every_simulated_action() -> None:
    page = preflight_reference()
    tables = [value for name, value in vars(action_table).items() if name.isupper()]
    assert len(tables) > 30
    assert [each for actions in tables for each in actions if f"`{each}`" not in page] == []
