"""Policy configuration in a run of the embedded engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.errors import ExitCode, InputError

from .conftest import Lab
from .packs import write_pack

PACK = """
def check(args, report):
    limit = args.get_config()["limit"]
    if args.resource_type == "box:index:Box" and args.props.get("size", 0) > limit:
        report(f"above {limit}")

PolicyPack("sizes", [
    rule("cap", check, config_schema=PolicyConfigSchema({"limit": {"type": "integer", "default": 5}})),
    rule("other", lambda args, report: None),
])
"""


@pytest.fixture
def sized(lab: Lab, tmp_path: Path) -> Lab:
    """A laboratory with a box of size 7 and a pack that allows 5."""
    pack = write_pack(tmp_path / "pack", PACK)
    return lab.configure(policy_packs=(pack,)).program('Box("a", {"size": 7})\n')


def settings(lab: Lab, content: Any) -> Lab:
    """Configure the pack of the laboratory with a file of that content."""
    file = lab.folder / "policy.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return lab.configure(policy_config={lab.request.policy_packs[0]: file})


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        ({}, ("mandatory", "above 5")),
        ({"cap": {"limit": 6}}, ("mandatory", "above 6")),
        ({"cap": {"limit": 7}}, None),
        ({"cap": "advisory"}, ("advisory", "above 5")),
        ({"cap": "disabled"}, None),
        ({"all": "disabled"}, None),
        ({"all": "disabled", "cap": {"enforcementLevel": "remediate"}}, ("mandatory", "above 5")),
    ],
)
def test_file_sets_level_and_settings(
    sized: Lab, content: dict[str, Any], verdict: tuple[str, str] | None
) -> None:
    result = settings(sized, content).run("preview")
    found = [(v.enforcement, v.message.split("\n")[1].replace(".0", "")) for v in result.violations]
    assert found == ([verdict] if verdict else [])
    assert result.ok is (verdict is None or verdict[0] == "advisory")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ({"cap": "hard"}, 'cap: "hard" is not an enforcement level'),
        ({"cap": {"limit": "many"}}, "cap: limit: 'many' is not of type 'integer'"),
    ],
)
def test_invalid_file_is_bad_input_and_nothing_happens(sized: Lab, content: Any, message: str) -> None:
    settings(sized, content)
    for verb in ("preview", "up"):
        with pytest.raises(InputError) as refused:
            sized.run(verb)
        assert refused.value.message.startswith(str(sized.folder / "policy.json"))
        assert message in refused.value.message
        assert refused.value.exit_code is ExitCode.BAD_INPUT
    assert sized.names() == []


def test_unknown_policy_is_a_warning_and_the_rest_of_the_file_applies(sized: Lab) -> None:
    result = settings(sized, {"cpa": "mandatory", "cap": "advisory"}).run("preview")
    assert result.ok
    assert "the pack has no policy 'cpa' (did you mean 'cap'?)" in sized.messages("warning")
    assert [v.enforcement for v in result.violations] == ["advisory"]
