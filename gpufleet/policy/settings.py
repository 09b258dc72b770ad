"""Enforcement and settings of each rule: defaults, fleet file, and Pulumi's policy configuration.

Pulumi's policy configuration overrides the fleet file, because the fleet file is part of the checked change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from pydantic import ValidationError

from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.policy.rule import Enforcement, Rule, Settings
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.policy import LEAST_OF_A_NAME, LEVELS
from gpufleet.spec.source import SourceMap


class ConfiguredRule(Struct, frozen=True):
    """A rule with its enforcement and settings in one run."""

    rule: Rule[Any]
    enforcement: Enforcement
    settings: Settings


def read_pack_config(file: Path | None) -> dict[str, PackConfig]:
    """Read a file of Pulumi's policy configuration (`--policy-pack-config`). Empty for None.

    Raises InputError with all errors in it.
    """
    from gpufleet.engine.policy_config import read_policy_config

    given = read_policy_config(file) if file is not None else {}
    return {
        name: PackConfig(cast("Enforcement", each.level) if each.level else None, each.properties)
        for name, each in given.items()
    }


class PackConfig(Struct, frozen=True):
    """Pulumi's policy configuration of one rule."""

    enforcement: Enforcement | None = None
    settings: Mapping[str, Any] | None = None


def configure(
    rules: Sequence[Rule[Any]],
    spec: FleetSpec | None = None,
    source: SourceMap | None = None,
    pack_config: Mapping[str, PackConfig] | None = None,
) -> tuple[ConfiguredRule, ...]:
    """Return all rules with their enforcement and settings. Raises SpecError with all findings.

    Findings: unknown rule names in `policies` and `exemptions`, level `remediate` for a rule without a
    remediation, and settings that the rule does not have or of the wrong type.
    """
    findings: list[Finding] = []
    by_name = {rule.name: rule for rule in rules}
    if spec is not None:
        for name in spec.policies:
            if name not in by_name:
                findings.append(_unknown_rule(name, f"policies.{name}", by_name, source))
        for index, exemption in enumerate(spec.exemptions):
            if exemption.rule not in by_name:
                findings.append(_unknown_rule(exemption.rule, f"exemptions[{index}].rule", by_name, source))
            stem = _site_in(exemption.resource, spec)
            if stem:
                findings.append(
                    _finding(
                        f"exemptions[{index}].resource",
                        exemption.resource,
                        "exemption-too-wide",
                        f"{exemption.resource} covers everything of a site, whose names begin with {stem}",
                        f"name the resource, or write {LEAST_OF_A_NAME} letters or more after {stem}",
                        source,
                    )
                )
    for name in pack_config or ():
        if name not in by_name and name != "all":
            findings.append(_unknown_rule(name, name, by_name, None))
    configured = [_configure(rule, spec, source, pack_config or {}, findings) for rule in rules]
    if findings:
        raise SpecError(findings)
    return tuple(configured)


def _site_in(pattern: str, spec: FleetSpec) -> str:
    """Return the beginning of the names of a site's resources, if the pattern covers all of them."""
    if not pattern.endswith("*"):
        return ""
    start = pattern[:-1]
    for site in [*(each.site for each in spec.cloud), *(each.site for each in spec.onprem)]:
        stem = f"{spec.fleet}-{spec.environment}-{site}-"
        few = start.startswith(stem) and len(start) < len(stem) + LEAST_OF_A_NAME
        if few or stem.startswith(start):
            return stem
    return ""


def _configure(
    rule: Rule[Any],
    spec: FleetSpec | None,
    source: SourceMap | None,
    pack_config: Mapping[str, PackConfig],
    findings: list[Finding],
) -> ConfiguredRule:
    here = spec.policies.get(rule.name) if spec is not None else None
    given = pack_config.get(rule.name, PackConfig())
    everything = pack_config.get("all", PackConfig())
    level = given.enforcement or everything.enforcement or (here.enforcement if here else None)
    if level == "remediate" and rule.remediate is None and everything.enforcement != level:
        findings.append(
            _finding(
                f"policies.{rule.name}.enforcement",
                "remediate",
                "policy-enforcement",
                f"the rule {rule.name} has no remediation",
                f"write one of {', '.join(each for each in LEVELS if each != 'remediate')}",
                source,
            )
        )
    values = {**(here.settings if here else {}), **(given.settings or {})}
    settings = rule.settings()
    try:
        settings = rule.settings.model_validate(values)
    except ValidationError as error:
        for each in error.errors():
            path = ".".join(str(part) for part in each["loc"])
            name = str(each["loc"][0]) if each["loc"] else ""
            # Pulumi's value may differ from that of the file.
            from_file = here is not None and name in here.settings and values[name] == here.settings[name]
            findings.append(
                _finding(
                    f"policies.{rule.name}.settings.{path}",
                    each.get("input"),
                    "policy-setting",
                    f"{path}: {each['msg'][0].lower()}{each['msg'][1:]}",
                    _settings_of(rule),
                    source if from_file else None,
                )
            )
    return ConfiguredRule(rule, level or rule.enforcement, settings)


def _settings_of(rule: Rule[Any]) -> str:
    names = [f"{name} ({field.description})" for name, field in rule.settings.model_fields.items()]
    return (
        f"the rule {rule.name} has the settings {'; '.join(names)}"
        if names
        else f"the rule {rule.name} has no settings"
    )


def _unknown_rule(name: str, path: str, known: Mapping[str, Any], source: SourceMap | None) -> Finding:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    remedy = f"did you mean '{near[0]}'? " if near else ""
    return _finding(
        path,
        name,
        "policy-rule-name",
        f"there is no rule '{name[:60]}'",
        f"{remedy}`gpufleet rules` lists all rules",
        source,
    )


def _finding(
    path: str, value: Any, rule: str, message: str, remedy: str, source: SourceMap | None
) -> Finding:
    if source is not None:
        return source.finding(path, rule=rule, message=message, remedy=remedy, value=value)
    return Finding(
        file="policy configuration",
        line=0,
        field=path,
        value=value,
        rule=rule,
        message=message,
        remedy=remedy,
    )
