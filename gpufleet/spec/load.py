"""Reading a fleet file: from an environment's name to a FleetSpec, or to every finding at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from gpufleet.containment import repository_of, shown_in
from gpufleet.errors import InputError, SpecError
from gpufleet.findings import Finding
from gpufleet.spec.document import read_document
from gpufleet.spec.extends import extend
from gpufleet.spec.models import FleetSpec, Model
from gpufleet.spec.nodes import Entry
from gpufleet.spec.paths import FieldPath
from gpufleet.spec.shape import fields_of, is_model
from gpufleet.spec.source import SourceMap
from gpufleet.spec.translate import findings_of

STACKS = "stacks"
FLEET_FILE = "fleet.yaml"
MOST_FINDINGS = 1000

_ENVIRONMENT = re.compile(r"[a-z][a-z0-9-]*")


class LoadedFleet(Struct, frozen=True):
    """A fleet file that holds: its models, and the map from fields to file and line."""

    spec: FleetSpec
    source: SourceMap
    environment: str
    path: Path


class FleetReading(Struct, frozen=True):
    """A fleet file that could be read: `fleet` where it holds, and what is wrong with its fields else."""

    root: Entry
    source: SourceMap
    findings: tuple[Finding, ...]
    fleet: LoadedFleet | None


def load_fleet(target: str, *, root: Path) -> LoadedFleet:
    """The fleet of an environment (`stacks/<target>/fleet.yaml` below `root`) or of a file's path.

    Raises `InputError` when there is no such environment or file, and `SpecError` with all findings
    if the file is invalid. `gpufleet.checks` checks rules over several fields.
    """
    reading = read_fleet(target, root=root)
    if reading.fleet is None:
        raise SpecError(fewer(reading.findings))
    return reading.fleet


def read_fleet(target: str, *, root: Path) -> FleetReading:
    """The same, with the findings on a file whose fields do not hold, in the order of the file's lines.

    Raises `InputError` when there is no such file, and `SpecError` when it cannot be read as YAML.
    """
    path = find_fleet_file(target, root)
    shown = shown_in(path, root)
    within = repository_of(path, root)
    entry, findings = read_document(path, shown, within=within)
    try:
        owned = _stacks_of(path) or within
        entry, more = extend(entry, path, lambda base: shown_in(base, root), within=owned)
    except SpecError as error:
        raise SpecError([*findings, *error.findings]) from None
    findings += more
    source = SourceMap(entry)
    data = entry.node.plain()
    spec: FleetSpec | None = None
    try:
        spec = FleetSpec.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        findings += findings_of(error, source, FleetSpec)
    findings += _exactly_one(data, FleetSpec, (), source)
    findings += _environment(path, source)
    unique = list({(f.file, f.line, f.field, f.rule): f for f in findings}.values())
    unique.sort(key=lambda finding: (finding.file != shown, finding.file, finding.line))
    broken = spec is None or any(finding.severity == "error" for finding in unique)
    fleet = None if spec is None or broken else LoadedFleet(spec, source, spec.environment, path)
    return FleetReading(entry, source, tuple(unique), fleet)


def _stacks_of(path: Path) -> Path | None:
    """The folder of environments that has the file, None for a file elsewhere. It has code owners: a base
    file outside could change a budget without their review."""
    folder = path.resolve().parent.parent
    return folder if path.name == FLEET_FILE and folder.name == STACKS else None


def fewer(findings: Sequence[Finding]) -> list[Finding]:
    """The first findings, up to `MOST_FINDINGS`."""
    if len(findings) <= MOST_FINDINGS:
        return list(findings)
    return [*findings[:MOST_FINDINGS], _more(findings[MOST_FINDINGS], len(findings) - MOST_FINDINGS)]


def _more(first: Finding, count: int) -> Finding:
    return replace(
        first,
        rule="too-many-findings",
        message=f"{count:,} more findings from here on are not shown",
        remedy="repair those above first",
    )


def environments(root: Path) -> list[str]:
    """The environments below `root`: the folders of `stacks/` that hold a fleet file, sorted."""
    return sorted(path.parent.name for path in (root / STACKS).glob(f"*/{FLEET_FILE}"))


def find_fleet_file(target: str, root: Path) -> Path:
    """The fleet file that a target means: a path, or an environment's name; InputError for no such name."""
    if "/" in target or target.endswith((".yaml", ".yml")):
        return Path(target)
    path = root / STACKS / target / FLEET_FILE
    if _ENVIRONMENT.fullmatch(target) and path.exists():
        return path
    known = environments(root)
    if not known:
        raise InputError(
            f"no environment '{target}': {root / STACKS} holds none",
            remedy="write one with `gpufleet init <name> --template sandbox`",
        )
    near = get_close_matches(target.casefold(), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise InputError(
        f"no environment '{target[:60]}' (a folder of {STACKS}/ with a {FLEET_FILE})",
        remedy=f"{hint}There are {', '.join(known)}; a path to a fleet file works as well",
    )


def _environment(path: Path, source: SourceMap) -> Iterator[Finding]:
    folder = path.resolve().parent
    written = source.value("environment")
    if path.name != FLEET_FILE or folder.parent.name != STACKS or not isinstance(written, str):
        return
    if written != folder.name:
        yield source.finding(
            "environment",
            rule="environment-name",
            message=f"the file says '{written[:60]}' and lies in {STACKS}/{folder.name}",
            remedy=f"write 'environment: {folder.name}', or move the file to {STACKS}/{written[:60]}",
        )


def _exactly_one(data: Any, model: type[BaseModel], path: FieldPath, source: SourceMap) -> Iterator[Finding]:
    """The exactly-one-of rules of all models, also where other errors keep pydantic from them."""
    if not isinstance(data, dict):
        return
    if issubclass(model, Model) and model.exactly_one_of:
        kinds = model.exactly_one_of
        given = [kind for kind in kinds if data.get(kind) is not None]
        if len(given) != 1:
            yield _one_of_finding(path, kinds, given, source)
    for name, kind in fields_of(model).items():
        value = data.get(name)
        if is_model(kind):
            yield from _exactly_one(value, kind, (*path, name), source)
        elif isinstance(value, list) and is_model(item := _item(kind)):
            for index, each in enumerate(value):
                yield from _exactly_one(each, item, (*path, name, index), source)


def _item(kind: Any) -> Any:
    arguments = getattr(kind, "__args__", ())
    return arguments[0] if arguments else None


def _one_of_finding(path: FieldPath, kinds: tuple[str, ...], given: list[str], source: SourceMap) -> Finding:
    listed = ", ".join(kinds[:-1]) + " and " + kinds[-1]
    name = str(path[-1]) if isinstance(path[-1], str) else f"an entry of {path[-2]}"
    if not given:
        message, remedy = f"{name} needs one of {listed}", f"write one of {listed}"
    else:
        message = f"{name} takes exactly one of {listed}, and this has {' and '.join(given)}"
        remedy = "keep one"
        files = {source.at((*path, kind))[0]: kind for kind in given}
        if len(files) > 1:
            inherited = next(kind for file, kind in files.items() if file != source.file)
            remedy = f"keep one: '{inherited}: null' drops the one that comes with `extends:`"
    return source.finding(path, rule="exactly-one-of", message=message, remedy=remedy)
