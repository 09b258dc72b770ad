"""Pulumi's own files of a checkout, read as YAML: Pulumi.yaml, stack settings and PulumiPolicy.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpufleet.containment import read_contained, repository_of
from gpufleet.errors import InputError

LARGEST_BYTES = 1024 * 1024


def read_project_file(file: Path, *, remedy: str, within: Path | None = None) -> dict[str, Any]:
    """Return the mapping in `file`, below the folder `within` (by default its repository); empty for an
    empty file.

    Raises InputError for a file that does not exist, leads out of the folder, or has no YAML mapping.
    """
    # Imported here: it loads slowly, and most runs read no such file.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    data = read_contained(file, str(file), within=within or repository_of(file), most=LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise InputError(f"{file} has more than {LARGEST_BYTES:,} bytes", remedy=remedy)
    try:
        content = YAML(typ="safe").load(data.decode("utf-8"))
    except (YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: this is not YAML: {error}", remedy=remedy) from None
    if not isinstance(content, dict | None):
        raise InputError(f"{file}: this is not a YAML mapping", remedy=remedy)
    return content or {}
