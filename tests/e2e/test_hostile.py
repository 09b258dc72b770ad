"""Hostile files and command lines end in exit code 2 and one clear message, and no parser runs away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from gpufleet.visible import ACTING
from tests.conftest import Checkout, make_checkout
from tests.e2e.hostile import Case, cases

SEED = 19
# Each takes a second or less. Aliases that grow or deep brackets take hours where nothing stops them.
TIMEOUT_S = 60.0
MADE = cases(SEED)
_MESSAGE = re.compile(r"^(?:error: |Usage: |\S.*:\d+: error: )", re.MULTILINE)

pytestmark = pytest.mark.xdist_group("hostile")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = make_checkout(tmp_path_factory.mktemp("hostile"))
    yield made
    made.run("sandbox", "stop")


def test_seed_produces_the_same_two_hundred_hostile_files() -> None:
    assert len(MADE) >= 200
    assert [(case.name, case.arguments) for case in cases(SEED)] == [
        (case.name, case.arguments) for case in MADE
    ]
    assert [case.arguments for case in cases(SEED + 1)] != [case.arguments for case in MADE]


@pytest.mark.parametrize(
    "case", MADE, ids=[case.name.encode("ascii", "backslashreplace").decode() for case in MADE]
)
def test_each_hostile_file_is_bad_input_with_one_message(place: Checkout, case: Case) -> None:
    folder = place.root / "hostile" / str(MADE.index(case))
    folder.mkdir(parents=True)
    case.make(folder)
    arguments = [argument.replace("{here}", str(folder)) for argument in case.arguments]
    # Every other one as a program would call it.
    as_json = MADE.index(case) % 2 == 1 and "--" not in arguments
    done = place.run(*arguments, *(["--json"] if as_json else []), timeout_s=TIMEOUT_S)
    reported = f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in reported
    assert "internal error" not in reported
    assert ACTING.search(reported) is None
    assert done.returncode == 2, f"exit code {done.returncode}\n{reported[-2000:]}"
    assert not (place.root / "owned").exists()
    if as_json:
        document = json.loads(done.stdout.splitlines()[-1])
        assert document.get("error") or document.get("findings")
    else:
        assert _MESSAGE.search(done.stderr), reported[-2000:]
        assert len(re.findall(r"^error: ", done.stderr, re.MULTILINE)) <= 1
    assert len(reported) < 2_000_000
