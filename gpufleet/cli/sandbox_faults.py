"""`gpufleet sandbox faults`: inject faults into the emulated AWS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.console import emit_json, out
from gpufleet.errors import ExitCode, InputError
from gpufleet.workspace import Workspace, find_root

_SLOW = re.compile(r"([a-z0-9-]+:[A-Za-z0-9*]+)=([0-9]+(?:\.[0-9]+)?)")
_FAIL = re.compile(r"([a-z0-9-]+:[A-Za-z0-9*]+)(?:#([0-9]+))?(?:=([A-Za-z0-9.]+))?")

Throttle = Annotated[bool, typer.Option("--throttle", help="Throttle EC2 by its published token buckets.")]
Late = Annotated[
    float, typer.Option("--late", metavar="SECONDS", help="Delay the visibility of new resources.")
]
NoCapacity = Annotated[
    list[str] | None,
    typer.Option("--no-capacity", metavar="TYPE[:ZONE]", help="No capacity for an instance type."),
]
SlowOption = Annotated[
    list[str] | None,
    typer.Option("--slow", metavar="SERVICE:ACTION=SECONDS", help="Delay an action."),
]
Fail = Annotated[
    list[str] | None,
    typer.Option("--fail", metavar="SERVICE:ACTION[#CALL][=CODE]", help="Fail one call of an action."),
]
File = Annotated[
    Path | None, typer.Option("--file", help="A JSON file with all faults (docs/guide/faults.md).")
]
Clear = Annotated[bool, typer.Option("--clear", help="Remove all faults.")]


def faults(
    throttle: Throttle = False,
    late: Late = 0.0,
    no_capacity: NoCapacity = None,
    slow: SlowOption = None,
    fail: Fail = None,
    file: File = None,
    clear: Clear = False,
    json: Json = False,
) -> int:
    """Show or set the faults of the emulated AWS.

    New faults replace the previous ones and reset the call counts.
    """
    from gpufleet.catalog import load_catalog
    from gpufleet.files import write_atomically
    from gpufleet.lab.aws import daemon
    from gpufleet.lab.aws.faults.known import refuse_unknown
    from gpufleet.lab.aws.faults.plan import Faults, read_faults
    from gpufleet.lab.aws.server.process import Files

    root = Workspace(find_root(), "sandbox").sandbox_root
    place = Files(root).faults
    wanted = _wanted(throttle, late, no_capacity or [], slow or [], fail or [])
    if sum(map(bool, (wanted, file, clear))) > 1:
        raise InputError("--clear, --file and single faults exclude each other", remedy="use one of them")
    if clear:
        place.unlink(missing_ok=True)
    elif wanted or file is not None:
        asked = _checked(wanted) if file is None else _read(file)
        refuse_unknown(asked, load_catalog(find_root() / ".gpufleet" / "catalog"))
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(place, asked.model_dump_json(indent=2), mode=0o600)
    held = read_faults(place)
    counts = (daemon.faults(root) or {}).get("injected", {}) if held else {}
    if json:
        emit_json({"faults": held.model_dump(mode="json"), "injected": counts})
        return int(ExitCode.DONE)
    if held == Faults():
        out.print("emulated AWS: no faults")
        return int(ExitCode.DONE)
    out.print("emulated AWS: these faults apply until `gpufleet sandbox faults --clear`", soft_wrap=True)
    for line in _lines(held.model_dump(mode="json", exclude_defaults=True)):
        out.print(f"  {line}", markup=False, soft_wrap=True)
    for what, count in counts.items():
        out.print(f"  {count:>6} x {what}", markup=False)
    return int(ExitCode.DONE)


def _wanted(
    throttle: bool, late: float, no_capacity: list[str], slow: list[str], fail: list[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if throttle:
        found["throttle"] = True
    if late:
        found["late_s"] = late
    if no_capacity:
        pairs = (text.partition(":") for text in no_capacity)
        found["shortages"] = [{"type": kind, "zone": zone} for kind, _, zone in pairs]
    if slow:
        found["slow"] = [
            {"action": match[1], "seconds": float(match[2])} for match in _matches(_SLOW, slow, "--slow")
        ]
    if fail:
        found["failures"] = [
            {"action": match[1], "call": int(match[2] or 1), "code": match[3] or "InternalError"}
            for match in _matches(_FAIL, fail, "--fail")
        ]
        for each in found["failures"]:
            # SDKs retry 5xx responses; an explicit code must reach the caller.
            each["status"] = 500 if each["code"] == "InternalError" else 400
    return found


def _matches(pattern: re.Pattern[str], texts: list[str], option: str) -> list[re.Match[str]]:
    found = [(text, pattern.fullmatch(text)) for text in texts]
    for text, match in found:
        if match is None:
            raise InputError(
                f"{option} {text!r} is not an action of a service",
                remedy="write for example --slow ec2:CreateVpc=5 or --fail ec2:CreateVpc#1=VpcLimitExceeded",
            )
    return [match for _, match in found if match is not None]


def _checked(wanted: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from gpufleet.lab.aws.faults.plan import Faults

    try:
        return Faults.model_validate(wanted)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {first['msg']}", remedy="see `gpufleet sandbox faults --help`") from None


def _read(file: Path) -> Any:
    from gpufleet.lab.aws.faults.plan import read_faults

    if not file.is_file():
        raise InputError(f"{file}: file not found", remedy="use a JSON file with faults")
    return read_faults(file)


def _lines(faults: dict[str, Any]) -> list[str]:
    lines = []
    for kind, value in faults.items():
        for each in value if isinstance(value, list) else [value]:
            shown = (
                " ".join(f"{key}={item}" for key, item in each.items()) if isinstance(each, dict) else each
            )
            lines.append(f"{kind}: {shown}")
    return lines
