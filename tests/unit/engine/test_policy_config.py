"""The configuration of a policy pack: reading it, and reconciling it with the pack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.api import StackRequest
from gpufleet.engine.errors import PluginError, UnsupportedError
from gpufleet.engine.policy_config import (
    PolicySchema,
    PolicySetting,
    check_policy_config,
    read_policy_config,
    reconcile,
    unknown_policies,
)
from gpufleet.errors import ExitCode, InputError

CAP = PolicySchema(
    "mandatory",
    {
        "limit": {"type": "integer", "default": 4},
        "unit": {"type": "string"},
        "enforcementLevel": {"type": "string", "enum": ["advisory", "mandatory"]},
    },
    ("unit",),
)
FREE = PolicySchema("advisory", {})
POLICIES = {"cap": CAP, "free": FREE}


def write(tmp_path: Path, content: Any) -> Path:
    """The content as a file: text as it is, anything else as JSON."""
    file = tmp_path / "policy.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def reconciled(given: dict[str, Any], tmp_path: Path, **more: Any) -> dict[str, PolicySetting]:
    """Result of a file with this content for the two policies."""
    file = write(tmp_path, given)
    return reconcile(POLICIES, more.get("initial", {}), read_policy_config(file), pack="p", file=file)


# -- reading


def test_file_sets_levels_and_settings(tmp_path: Path) -> None:
    content = {
        "a": "mandatory",
        "b": {"enforcementLevel": "disabled", "x": 1},
        "c": {"y": [1]},
        "d": {},
        "all": "advisory",
    }
    assert read_policy_config(write(tmp_path, content)) == {
        "a": PolicySetting("mandatory"),
        "b": PolicySetting("disabled", {"x": 1}),
        "c": PolicySetting("", {"y": [1]}),
        "all": PolicySetting("advisory"),
    }
    assert read_policy_config(write(tmp_path, " \n")) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a list, not an object"),
        ("3", "a number, not an object"),
        ({"a": "mandatry"}, "a: \"mandatry\" is not an enforcement level (did you mean 'mandatory'?)"),
        ({"a": ""}, 'a: "" is not an enforcement level'),
        ({"a": 3}, "a: 3 is neither an enforcement level nor an object"),
        ({"a": None}, "a: null is neither"),
        ({"a": {"enforcementLevel": 7}}, "a: 7 is not an enforcement level"),
        ({"a": {"enforcementLevel": ""}}, 'a: "" is not an enforcement level'),
        ({"a": {"enforcementLevel": ["mandatory"]}}, 'a: ["mandatory"] is not an enforcement level'),
    ],
)
def test_file_error_is_reported_with_its_name_and_a_remedy(
    tmp_path: Path, content: Any, message: str
) -> None:
    file = write(tmp_path, content)
    with pytest.raises(InputError) as refused:
        read_policy_config(file)
    assert refused.value.message.startswith(f"{file}: ")
    assert message in refused.value.message
    assert "advisory, mandatory, remediate, disabled" in refused.value.remedy
    assert refused.value.exit_code is ExitCode.BAD_INPUT


def test_all_errors_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a: .*; b: "):
        read_policy_config(write(tmp_path, {"a": 1, "b": "never", "c": "mandatory"}))


def test_missing_file_and_pulumi_cloud_environments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_policy_config(tmp_path / "none.json")
    with pytest.raises(UnsupportedError, match="environments of Pulumi Cloud"):
        read_policy_config(write(tmp_path, {"environments": ["x"], "a": "mandatory"}))


def test_configuration_for_a_folder_outside_the_run_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, {})
    request = StackRequest(
        project="p",
        stack="s",
        project_root=tmp_path,
        program_dir=tmp_path,
        state_file=tmp_path / "s.json",
        policy_packs=(tmp_path / "pack",),
        policy_config={tmp_path / "pakc": file},
    )
    with pytest.raises(InputError, match="pakc: it has a policy configuration"):
        check_policy_config(request)


# -- reconciling


def test_initial_configuration_overrides_defaults_and_the_file_overrides_both(tmp_path: Path) -> None:
    initial = {"cap": PolicySetting("advisory", {"limit": 5, "unit": "USD"})}
    assert reconciled({}, tmp_path, initial=initial)["cap"] == initial["cap"]
    settings = reconciled({"cap": {"limit": 6}}, tmp_path, initial=initial)
    assert settings["cap"] == PolicySetting("advisory", {"limit": 6, "unit": "USD"})
    settings = reconciled({"cap": {"unit": "EUR"}}, tmp_path)
    assert settings == {
        "cap": PolicySetting("mandatory", {"limit": 4, "unit": "EUR"}),
        "free": PolicySetting("advisory"),
    }


def test_all_sets_every_level_and_a_named_policy_overrides_it(tmp_path: Path) -> None:
    settings = reconciled(
        {"all": "disabled", "cap": {"enforcementLevel": "remediate", "unit": "x"}}, tmp_path
    )
    assert {name: setting.level for name, setting in settings.items()} == {
        "cap": "remediate",
        "free": "disabled",
        "all": "disabled",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cap": "mandatory"}, "cap: 'unit' is a required property"),
        ({"cap": {"unit": 3}}, "cap: unit: 3 is not of type 'string'"),
        ({"cap": {"unit": "x", "limit": "many"}}, "cap: limit: 'many' is not of type 'integer'"),
        ({"cap": {"unit": "x", "limit": 1.5}}, "cap: limit: 1.5 is not of type 'integer'"),
        (
            {"cap": {"unit": "x"}, "fre": {"y": 1}},
            "fre: this policy is not in the pack 'p' (did you mean 'free'?)",
        ),
    ],
)
def test_setting_that_does_not_match_the_pack_is_reported_with_file_policy_and_value(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        reconciled(given, tmp_path)
    assert refused.value.message.startswith(f"{tmp_path / 'policy.json'}: ")
    assert message in refused.value.message
    assert refused.value.remedy == "the policies of 'p' and their settings are: cap (limit, unit), free"


def test_all_mismatches_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        reconciled({"cap": {"limit": "a"}}, tmp_path)
    assert "cap: limit: 'a' is not of type 'integer'" in refused.value.message
    assert "cap: 'unit' is a required property" in refused.value.message


def test_pack_that_does_not_match_its_own_schema_is_named() -> None:
    with pytest.raises(InputError, match=r"^the initial configuration of policy pack 'p': cap: 'unit'"):
        reconcile(POLICIES, {}, {}, pack="p", file=None)
    broken = {"cap": PolicySchema("mandatory", {"limit": {"type": "nonsense"}})}
    with pytest.raises(PluginError, match="schema of policy 'cap' is not a JSON schema"):
        reconcile(broken, {}, {}, pack="p", file=None)


def test_level_for_an_unknown_policy_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    file = write(tmp_path, {"cpa": "mandatory", "all": "advisory", "cap": "mandatory"})
    (warning,) = unknown_policies(POLICIES, read_policy_config(file), file)
    assert warning == (
        f"{file}: the pack has no policy 'cpa' (did you mean 'cap'?), so this setting has no effect"
    )
