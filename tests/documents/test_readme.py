"""Output in the README is what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Checkout
from tests.documents.blocks import Block, blocks_of, commands_of
from tests.documents.examples import EXAMPLES, README, example_of, missing, printed_lines, rewritten

pytestmark = pytest.mark.xdist_group("e2e-documents")


@pytest.mark.parametrize("command", EXAMPLES)
def test_output_in_the_readme_matches_the_command(checkout: Checkout, command: str) -> None:
    (block,) = (block for block in blocks_of(README) if example_of(block) == command)
    printed = printed_lines(EXAMPLES[command](checkout))
    wanted = missing(block, printed)
    assert not wanted, f"{block.place}: run `make readme`; not printed:\n" + "\n".join(
        [*wanted, "", *printed]
    )
    assert rewritten(block, printed) == [
        line if line.startswith("$ ") else printed_lines(line)[0] if line else "" for line in block.lines
    ]


def test_every_block_of_the_readme_is_checked() -> None:
    unknown = [
        block.place
        for block in blocks_of(README)
        if block.language != "yaml" and not example_of(block) and len(commands_of(block)) != len(block.lines)
    ]
    assert unknown == []


def shown(*lines: str) -> Block:
    return Block(Path(README), 1, "", ("$ gpufleet validate prod", *lines), "")


@pytest.mark.parametrize(
    ("lines", "fails"),
    [
        (("one", "two"), []),
        (("one", "...", "three"), []),
        (("one", "three"), ["one", "three"]),
        (("two", "...", "one"), ["one"]),
        (("two", "...", "three", "...", "four"), ["four"]),
        (("one ", "tw"), ["one", "tw"]),
    ],
)
def test_lines_between_ellipses_are_compared_in_order(lines: tuple[str, ...], fails: list[str]) -> None:
    assert missing(shown(*lines), ["zero", "one", "two", "three"]) == fails


def test_block_is_rewritten_from_its_first_to_its_last_word() -> None:
    block = shown("cost 1 USD", " a  1", "total 1", "...", "budget 5")
    printed = ["warning", "cost 2 USD", " a  1", " b  1", "total 2", "x", "budget 9"]
    assert rewritten(block, printed) == [
        *("$ gpufleet validate prod", "cost 2 USD", " a  1", " b  1", "total 2", "...", "budget 9")
    ]
    with pytest.raises(SystemExit, match="by hand"):
        rewritten(shown("gone"), printed)
