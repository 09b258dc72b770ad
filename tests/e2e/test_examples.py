"""The fleet files of docs/examples: valid, priced, judged, and as the tutorials show them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT, Checkout, make_checkout

pytestmark = pytest.mark.xdist_group("e2e-templates")

# Rules on ages and support dates depend on the date, and tutorials are written once.
TODAY = {"GPUFLEET_POLICY_NOW": "2026-11-24T12:00:00+00:00"}
EXAMPLES = ("startup", "university", "enterprise")
GAP = "..."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout with the examples."""
    made = make_checkout(tmp_path_factory.mktemp("checkout"))
    yield made
    made.run("sandbox", "stop")


def _shown(example: str) -> dict[str, list[str]]:
    """Command -> the output lines that the tutorial shows."""
    text = (ROOT / "docs" / "guide" / f"tutorial_{example}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n\$ gpufleet ([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {command: [line for line in reported.splitlines() if line != GAP] for command, reported in blocks}


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_valid_breaks_no_rule_and_matches_its_tutorial(place: Checkout, example: str) -> None:
    shown = _shown(example)
    for verb in ("validate", "plan", "check"):
        command = f"{verb} docs/examples/{example}/fleet.yaml"
        done = place.run(*command.split(), env=TODAY)
        assert done.returncode == 0, done.stdout + done.stderr
        reported = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
        # Validate prints findings only for some of them.
        assert command in shown or verb == "validate"
        assert [line for line in shown.pop(command, []) if line not in reported] == []
    assert shown == {}


def test_example_of_the_guide_on_accelerators_breaks_no_rule_and_matches_the_guide(place: Checkout) -> None:
    text = (ROOT / "docs" / "guide" / "accelerators.md").read_text(encoding="utf-8")
    file = "docs/examples/trainium/fleet.yaml"
    assert "(../examples/trainium/fleet.yaml)" in text
    shown = re.search(rf"^```\n\$ gpufleet plan {file}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown is not None
    lines = [line for line in shown[1].splitlines() if line != GAP]
    for verb in ("validate", "plan", "check"):
        done = place.run(verb, file, env=TODAY)
        assert done.returncode == 0, done.stdout + done.stderr
        reported = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
        assert verb != "plan" or [line for line in lines if line not in reported] == []


def test_example_deploys_to_the_sandbox_by_its_path(place: Checkout) -> None:
    done = place.json("up", "docs/examples/university/fleet.yaml", "--cloud", "sandbox", "--yes")
    assert done["ok"]
    assert done["changes"]["create"] > 50


@pytest.mark.parametrize("example", EXAMPLES)
def test_tutorial_links_its_file_and_is_listed_in_the_readme(example: str) -> None:
    guide = ROOT / "docs" / "guide" / f"tutorial_{example}.md"
    text = guide.read_text(encoding="utf-8")
    assert f"(../examples/{example}/fleet.yaml)" in text
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (guide.parent / link).exists(), link
    assert f"docs/guide/tutorial_{example}.md" in (ROOT / "README.md").read_text(encoding="utf-8")
