"""A report file of a policy run, for verdicts, which need more than the protocol's messages.

Pulumi's events contain only the message of a violation and no property dependencies. If
`GPUFLEET_POLICY_REPORT` is set, a pack writes both to that file at the end of the run, in either engine.
Secret values are omitted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from gpufleet.files import put
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack

REPORT = "GPUFLEET_POLICY_REPORT"

_UNKNOWN = {"__gpufleet": "unknown"}
_SECRET = "[secret]"  # noqa: S105 - a placeholder


class ReportedViolation(Struct, frozen=True):
    """One violation of a policy run. See `Violation` and `RuleViolation` for the fields."""

    rule: str
    enforcement: str
    level: str
    urn: str
    message: str
    remedy: str
    prop: str
    fleet_field: str
    unknown: bool
    exempted: bool


class Report(Struct, frozen=True):
    """A policy run: the stack as the rules received it, and all violations of resource and stack rules."""

    stack: Stack
    found: tuple[ReportedViolation, ...]


def found_of(found: RuleViolation) -> ReportedViolation:
    """Return the violation without the code of its rule."""
    violation = found.violation
    return ReportedViolation(
        rule=found.rule.name,
        enforcement=found.enforcement,
        level=found.level,
        urn=found.urn,
        message=found.message,
        remedy=violation.remedy,
        prop=violation.prop,
        fleet_field=violation.fleet_field or found.rule.fleet_field,
        unknown=violation.unknown,
        exempted=found.exempted,
    )


def write_report(path: Path, stack: Stack, violations: Sequence[RuleViolation]) -> None:
    """Write the report atomically, readable only by its owner."""
    document = {
        "resources": [_resource_json(each) for each in stack],
        "found": [asdict(found_of(each)) for each in violations],
    }
    put(path, json.dumps(document).encode())


def read_report(path: Path) -> Report:
    """Read a report. Raises FileNotFoundError if the run ended before it was written."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Report(
        Stack(_resource_of(each) for each in document["resources"]),
        tuple(ReportedViolation(**each) for each in document["found"]),
    )


def _resource_json(resource: Resource) -> dict[str, Any]:
    data: dict[str, Any] = to_builtins(replace(resource, props={}, inputs=None, provider=None))
    data["secrets"] = sorted(resource.secrets)
    data["props"] = _masked(resource.props, "", resource.secrets)
    data["inputs"] = None if resource.inputs is None else _masked(resource.inputs, "", resource.secrets)
    provider = resource.provider
    if provider is not None:
        data["provider"] = {**asdict(replace(provider, props={})), "props": _region_of(provider)}
    return data


def _region_of(provider: ProviderInstance) -> dict[str, Any]:
    # Other inputs of a provider are credentials and similar, which no rule needs.
    return (
        {"region": _masked(provider.props["region"], "", frozenset())} if "region" in provider.props else {}
    )


def _masked(value: Any, path: str, secrets: frozenset[str]) -> Any:
    if path in secrets:
        return _SECRET
    if value is UNKNOWN:
        return _UNKNOWN
    if isinstance(value, Mapping):
        return {key: _masked(item, f"{path}.{key}" if path else key, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item, f"{path}[{index}]", secrets) for index, item in enumerate(value)]
    return value


def _plain(value: Any) -> Any:
    if value == _UNKNOWN:
        return UNKNOWN
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _resource_of(data: dict[str, Any]) -> Resource:
    provider = data["provider"]
    options = data["options"]
    return Resource(
        **{
            **data,
            "props": _plain(data["props"]),
            "inputs": _plain(data["inputs"]),
            "options": ResourceOptions(
                **{
                    **options,
                    "ignore_changes": tuple(options["ignore_changes"]),
                    "aliases": tuple(options["aliases"]),
                }
            ),
            "provider": ProviderInstance(**{**provider, "props": _plain(provider["props"])})
            if provider
            else None,
            "dependencies": tuple(data["dependencies"]),
            "property_dependencies": {
                key: tuple(urns) for key, urns in data["property_dependencies"].items()
            },
            "secrets": frozenset(data["secrets"]),
        }
    )
