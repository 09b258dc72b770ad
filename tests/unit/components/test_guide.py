"""The guide's examples, run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.components.recording import record

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "components.md"
EXAMPLES = re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_example_of_the_guide_runs_as_printed(title: str, code: str) -> None:
    built = record(lambda: exec(compile(code, title, "exec"), {}))
    assert [r for r in built if r.custom]


def test_guide_has_examples() -> None:
    assert len(EXAMPLES) == 3


def test_table_lists_existing_components() -> None:
    import importlib

    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", GUIDE.read_text(), re.MULTILINE)
    assert len(rows) >= 6
    for name, module in rows:
        assert hasattr(importlib.import_module(module), name)
