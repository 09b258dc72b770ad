"""The configuration of a policy pack: its JSON file, merged with the pack's own settings.

The file has, by policy (or "all"), an enforcement level or an object with `enforcementLevel` and the policy's
own settings. Precedence and validation follow Pulumi's pkg/resource/analyzer/config.go: defaults of the
schema, then the pack's initial configuration, then the file; the schema validates the result.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from gpufleet.engine.api import StackRequest
from gpufleet.engine.errors import PluginError, UnsupportedError
from gpufleet.errors import InputError

LEVELS = ("advisory", "mandatory", "remediate", "disabled")
ALL = "all"
_REMEDY = (
    'write {"policy": "mandatory"} or {"policy": {"enforcementLevel": "mandatory", ...settings...}}; '
    f"the levels are {', '.join(LEVELS)}, and the key {ALL!r} stands for every policy"
)


class PolicySetting(Struct, frozen=True):
    """The settings of one policy: a level ("" if not set) and its settings."""

    level: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)


class PolicySchema(Struct, frozen=True):
    """A pack's declaration of one policy: its level, and the JSON schema of its settings (or None)."""

    level: str
    properties: Mapping[str, Mapping[str, Any]] | None = None
    required: Sequence[str] = ()


def read_policy_config(file: Path) -> dict[str, PolicySetting]:
    """Return the settings in a file, by policy. Raises one `InputError` with all errors."""
    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text) if text.strip() else {}
    except OSError as error:
        raise InputError(
            f"{file}: the policy configuration cannot be read: {error.strerror}",
            remedy="use a JSON file, or remove the configuration",
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: the policy configuration is not JSON: {error}", remedy=_REMEDY) from error
    if not isinstance(content, dict):
        raise InputError(
            f"{file}: the policy configuration is {_kind(content)}, not an object", remedy=_REMEDY
        )
    if "environments" in content:
        raise UnsupportedError(f"{file}: policy configuration from environments of Pulumi Cloud")
    settings: dict[str, PolicySetting] = {}
    wrong: list[str] = []
    for policy, value in content.items():
        level, properties = value, {}
        if isinstance(value, dict):
            level = value.get("enforcementLevel", "")
            properties = {key: item for key, item in value.items() if key != "enforcementLevel"}
        elif not isinstance(value, str):
            wrong.append(f"{policy}: {_shown(value)} is neither an enforcement level nor an object")
            continue
        if level not in LEVELS and not (isinstance(value, dict) and "enforcementLevel" not in value):
            wrong.append(f"{policy}: {_shown(level)} is not an enforcement level{_nearest(level, LEVELS)}")
        elif level or properties:
            settings[policy] = PolicySetting(level, properties)
    if wrong:
        raise InputError(f"{file}: {'; '.join(wrong)}", remedy=_REMEDY)
    return settings


def check_policy_config(request: StackRequest) -> dict[Path, Path]:
    """Return the configuration file of each pack folder, both absolute. Raises `InputError`."""
    folders = {folder.resolve() for folder in request.policy_packs}
    for folder in request.policy_config:
        if folder.resolve() not in folders:
            raise InputError(
                f"{folder}: it has a policy configuration, but is not a policy pack of this run",
                remedy="add the folder to the policy packs, or remove its configuration",
            )
    files = {folder.resolve(): file.resolve() for folder, file in request.policy_config.items()}
    for file in files.values():
        read_policy_config(file)
    return files


def reconcile(
    policies: Mapping[str, PolicySchema],
    initial: Mapping[str, PolicySetting],
    given: Mapping[str, PolicySetting],
    *,
    pack: str,
    file: Path | None,
) -> dict[str, PolicySetting]:
    """Return the effective configuration of the pack.

    Raises `InputError` if the result does not match a policy's schema, or if the file has settings, but no
    level, for a policy that the pack does not have.
    """
    result = {
        name: PolicySetting(
            policy.level,
            {
                key: schema["default"]
                for key, schema in (policy.properties or {}).items()
                if "default" in schema
            },
        )
        for name, policy in policies.items()
    }
    for layer in (initial, given):
        _apply(result, layer)
    where = str(file) if file is not None else f"the initial configuration of policy pack '{pack}'"
    wrong = [
        f"{name}: this policy is not in the pack '{pack}'{_nearest(name, policies)}"
        for name, setting in result.items()
        if not setting.level
    ]
    for name, policy in sorted(policies.items()):
        wrong += [f"{name}: {problem}" for problem in _problems(policy, result[name].properties, name, pack)]
    if wrong:
        raise InputError(
            f"{where}: {'; '.join(wrong)}",
            remedy=f"the policies of '{pack}' and their settings are: {_summary(policies)}",
        )
    return result


def unknown_policies(policies: Iterable[str], given: Iterable[str], file: Path) -> list[str]:
    """Return a warning for each policy in the file that the pack does not have: it has no effect."""
    known = set(policies)
    return [
        f"{file}: the pack has no policy '{name}'{_nearest(name, known)}, so this setting has no effect"
        for name in given
        if name != ALL and name not in known
    ]


def _apply(result: dict[str, PolicySetting], layer: Mapping[str, PolicySetting]) -> None:
    for_all = layer.get(ALL, PolicySetting()).level
    if for_all:
        for name, setting in result.items():
            result[name] = PolicySetting(for_all, setting.properties)
    for name, given in layer.items():
        before = result.get(name, PolicySetting())
        result[name] = PolicySetting(given.level or before.level, {**before.properties, **given.properties})


def _problems(policy: PolicySchema, properties: Mapping[str, Any], name: str, pack: str) -> list[str]:
    if policy.properties is None:
        return []
    # Imported here: it loads slowly, and most runs have no policy configuration.
    from jsonschema import Draft7Validator  # type: ignore[import-untyped]
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]

    schema = {"type": "object", "properties": dict(policy.properties), "required": list(policy.required)}
    try:
        Draft7Validator.check_schema(schema)
    except SchemaError as error:
        raise PluginError(
            f"policy pack '{pack}': the configuration schema of policy '{name}' is not a JSON schema: "
            f"{error.message}",
            remedy="correct the schema in the pack",
        ) from error
    found = sorted(Draft7Validator(schema).iter_errors(dict(properties)), key=lambda item: str(item.path))
    return [f"{'.'.join(map(str, item.path))}: {item.message}".removeprefix(": ") for item in found]


def _summary(policies: Mapping[str, PolicySchema]) -> str:
    parts = []
    for name, policy in sorted(policies.items()):
        settings = sorted(key for key in policy.properties or {} if key != "enforcementLevel")
        parts.append(f"{name} ({', '.join(settings)})" if settings else name)
    return ", ".join(parts)


def _nearest(name: Any, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
