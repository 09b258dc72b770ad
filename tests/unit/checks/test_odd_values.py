"""Any input gives findings and never a traceback."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from tests.unit.checks.fleets import FLEET, Judge

ODD: list[Any] = [
    "", " ", "x", "-", "0", "0.0.0.0/0", "10.0.0.0/8", "10.40.0.0/22", "10.40.0.0/32", "::/0", "/",
    "//", "/..", "us-east-1z", "us-west-2a", "p6-b300.48xlarge", "g6f.xlarge", "trn2u.48xlarge",
    "m7i.xlarge", "cr-0123456789abcdef0", "in 0 d", "in 56 d", "1970-01-01", "9999-12-31", "1 s",
    "100 y", "0 USD", "0.01 USD", "999999999999 USD", "1 GiB", "1 PiB", "125 MB/s/TiB", "100%", "1000%",
    "s3://abc", "s3://a.b/c", "n[1-2]", "dgx001", "dgx-b300", "slurm", "kubernetes", "cluster", "efa",
    "none", "odcr", "1.36", "2026.08", 0, 1, 64, 65, 100_000, -1, 1.0, True, None, [], {},
    ["us-east-1a"], ["p5.48xlarge"] * 3, {"a": "b"},
]  # fmt: skip


def _leaves(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, f"{path}.{key}")]
    if isinstance(value, list) and value:
        return [leaf for index, inner in enumerate(value) for leaf in _leaves(inner, f"{path}.{index}")]
    return [path.lstrip(".")]


LEAVES = _leaves(copy.deepcopy(FLEET))


@pytest.mark.parametrize("leaf", LEAVES)
def test_odd_value_in_any_field_gives_findings_and_no_traceback(judge: Judge, leaf: str) -> None:
    for odd in random.Random(leaf).sample(ODD, 16):
        findings: list[Finding] | tuple[Finding, ...]
        try:
            findings = judge({leaf: odd}).findings
        except SpecError as error:
            findings = error.findings
        for finding in findings:
            assert finding.message
            assert finding.remedy
            assert finding.line > 0


@pytest.mark.parametrize("seed", range(30))
def test_several_odd_values_give_findings_and_no_traceback(judge: Judge, seed: int) -> None:
    chance = random.Random(seed)
    changes = {leaf: chance.choice(ODD) for leaf in chance.sample(LEAVES, 4)}
    try:
        findings = judge(changes).findings
    except SpecError as error:
        assert error.findings
    else:
        assert all(finding.remedy for finding in findings)
