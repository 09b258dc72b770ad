"""The files of a new environment: a commented template, filled in and written over nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpufleet.errors import InputError
from gpufleet.files import cannot_be_written, put
from gpufleet.spec.fields import NAME, PATTERNS
from gpufleet.spec.load import FLEET_FILE, STACKS

TemplateName = Literal["sandbox", "cloud", "onprem", "hybrid"]
TEMPLATES: tuple[str, ...] = get_args(TemplateName)

# A bucket is named after both, and takes 63 characters.
LONGEST_NAME = 24


def check_template(template: str) -> str:
    """The template; raises `InputError` with the nearest name for an unknown one."""
    if template not in TEMPLATES:
        near = get_close_matches(template.casefold(), TEMPLATES, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise InputError(f"no template '{template[:60]}'", remedy=f"{hint}There are {', '.join(TEMPLATES)}")
    return template


def check_name(kind: str, name: str) -> None:
    """Raise `InputError` for a name of an environment or a fleet (`kind`) that a fleet file refuses."""
    if not re.fullmatch(NAME, name):
        raise InputError(f"'{name[:60]}' is no name for the {kind}", remedy=f"write {PATTERNS[NAME]}")
    if len(name) > LONGEST_NAME:
        raise InputError(
            f"'{name[:60]}' is too long a name for the {kind}",
            remedy=f"write at most {LONGEST_NAME} characters",
        )


def render_template(template: str, values: Mapping[str, Any]) -> str:
    """The commented fleet file of one of `TEMPLATES`, with `values` filled in."""
    # YAML and not HTML; values are names and figures that were checked before.
    files = Environment(
        loader=PackageLoader("gpufleet.spec", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    return files.get_template(f"{template}.yaml").render(template=template, **values)


def write_environment(root: Path, environment: str, template: str, text: str) -> tuple[Path, Path]:
    """Write `stacks/<environment>/fleet.yaml` (`text`) and `stacks/Pulumi.<environment>.yaml` below `root`.

    The sandbox template is provisioned in the emulated cloud, the others in AWS. Returns both
    paths. Raises `InputError`, with nothing written, when either of the files is there already.
    """
    cloud = "sandbox" if template == "sandbox" else "aws"
    fleet_path, stack_path = refuse_existing(root, environment)
    fleet_path.parent.mkdir(parents=True, exist_ok=True)
    _create(stack_path, f"config:\n  gpufleet:cloud: {cloud}\n", root)
    try:
        _create(fleet_path, text, root)
    except BaseException:
        stack_path.unlink(missing_ok=True)
        raise
    return fleet_path, stack_path


def refuse_existing(root: Path, environment: str) -> tuple[Path, Path]:
    """The two files of a new environment; `InputError` when one of them is there already."""
    fleet_path = root / STACKS / environment / FLEET_FILE
    stack_path = root / STACKS / f"Pulumi.{environment}.yaml"
    for path in (fleet_path, stack_path):
        if os.path.lexists(path):
            raise _exists(path, root)
    return fleet_path, stack_path


def _create(path: Path, text: str, root: Path) -> None:
    """Write a new file whole or not at all, and never over another one."""
    try:
        put(path, text.encode(), mode=0o644, over=False)
    except FileExistsError:
        raise _exists(path, root) from None
    except OSError as error:
        raise cannot_be_written(path, error) from None


def _exists(path: Path, root: Path) -> InputError:
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return InputError(f"{shown} is there already", remedy="choose another name; nothing was written")
