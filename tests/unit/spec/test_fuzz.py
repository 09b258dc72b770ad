"""Broken files of all kinds: the loader reports findings and nothing else happens."""

from __future__ import annotations

import random
import re

import pytest

from gpufleet.errors import InputError, SpecError
from gpufleet.spec.load import load_fleet
from tests.unit.spec.samples import ROOT, VALID, Checkout

PIECES = (
    *(
        ": ",
        "- ",
        "\n",
        "  ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "<<: *a",
        "!!str ",
        "!x ",
        "'",
        '"',
        "|",
        ">",
        "#",
    ),
    *(
        "? ",
        "~",
        "null",
        "-1",
        "1e400",
        ".inf",
        "NaN",
        "9" * 400,
        "\t",
        "\r",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
    ),
    *("\\x00", "\N{LINE SEPARATOR}", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}", "\U0001f600"),
    *("24 TB", "dgx[1-", "in ", "extends: ../x"),
)


VALUES = (
    *(
        "",
        "~",
        "''",
        "0",
        "-1",
        "1",
        "1.5",
        "99999999999999999999",
        "1e400",
        ".inf",
        ".nan",
        "0x1F",
        "0o17",
        "yes",
    ),
    *(
        "true",
        "2031-05-01",
        "12:30:45",
        "in 3 d",
        "24 TiB",
        "24 TB",
        "250 MB/s/TiB",
        "80%",
        "5 USD",
        "a[1-3]",
    ),
    *(
        "[]",
        "{}",
        "[a, b]",
        "{a: b}",
        "[[[]]]",
        "{a: {b: [c]}}",
        "'{braces} %s %d'",
        "'\\\\'",
        '"\\u0000"',
        "x" * 300,
    ),
    *(
        "\N{ARABIC-INDIC DIGIT FIVE}",
        "\N{FULLWIDTH DIGIT FIVE} GiB",
        "g6.xlarge",
        "Serve",
        "s-",
        "spot",
        "slurm",
    ),
)


def mutate(text: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.choice([0, 0, 1, 2, 5, 20, 80]))
        kind = dice.randrange(4)
        if kind == 0:
            middle = dice.choice(PIECES)
        elif kind == 1:
            middle = ""
        elif kind == 2:
            middle = text[start:end] * 2
        else:
            other = dice.randrange(len(text) + 1)
            middle = text[other : other + dice.choice([1, 5, 30])]
        text = text[:start] + middle + text[end:]
    return text


def replace_values(text: str, dice: random.Random) -> str:
    """The same structure with other values, which pass the parser and reach the models."""
    values = list(re.finditer(r"(?<=: )[A-Za-z0-9][^,\n\[\]{}#]*", text))
    for value in sorted(dice.sample(values, dice.randint(1, 6)), key=lambda match: -match.start()):
        text = text[: value.start()] + dice.choice(VALUES) + text[value.end() :]
    return text


def judge(checkout: Checkout, data: bytes) -> bool:
    """Load the bytes; True when they hold. Everything that is wrong has its place and its remedy."""
    checkout.path.write_bytes(data)
    try:
        load_fleet("demo", root=checkout.root)
    except SpecError as error:
        assert error.findings
        for finding in error.findings:
            assert finding.line >= 1
            assert finding.file and finding.rule and finding.message and finding.remedy
            assert len(finding.message) < 1000
            finding.to_json()
        return False
    except InputError as error:
        assert error.message
        return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_mutated_files_are_valid_or_have_findings(checkout: Checkout, seed: int) -> None:
    dice = random.Random(seed)
    sources = [VALID, (ROOT / "stacks/sandbox/fleet.yaml").read_text()]
    checkout.write(VALID)
    outcomes = [judge(checkout, mutate(dice.choice(sources), dice).encode()) for _ in range(150)]
    assert not all(outcomes)


@pytest.mark.parametrize("seed", range(6))
def test_replaced_values_are_valid_or_have_findings(checkout: Checkout, seed: int) -> None:
    dice = random.Random(3000 + seed)
    sources = [VALID, (ROOT / "stacks/sandbox/fleet.yaml").read_text()]
    checkout.write(VALID)
    outcomes = [judge(checkout, replace_values(dice.choice(sources), dice).encode()) for _ in range(100)]
    assert not all(outcomes)


@pytest.mark.parametrize("seed", range(2))
def test_mutated_bytes_are_valid_or_have_findings(checkout: Checkout, seed: int) -> None:
    dice = random.Random(1000 + seed)
    checkout.write(VALID)
    for _ in range(150):
        data = bytearray(VALID.encode())
        for _ in range(dice.randint(1, 5)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        judge(checkout, bytes(data))


@pytest.mark.parametrize("seed", range(3))
def test_mutated_bases_are_valid_or_have_findings(checkout: Checkout, seed: int) -> None:
    dice = random.Random(2000 + seed)
    over = (ROOT / "stacks/prod/fleet.yaml").read_text().replace("environment: prod", "environment: demo")
    base = (ROOT / "stacks/base.yaml").read_text()
    checkout.write(over)
    for _ in range(60):
        checkout.write(mutate(base, dice), "stacks/base.yaml")
        judge(checkout, mutate(over, dice).encode() if dice.random() < 0.5 else over.encode())
