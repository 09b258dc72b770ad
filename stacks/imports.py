"""Resources that exist already and that the stack takes over: `stacks/<environment>/imports.json`.

`gpufleet adopt` writes the file: a list of `type`, `name` (in the stack) and `id`. The engine reads each from
the cloud at the first `up` and creates nothing; it must have the settings and tags that the program gives it.
Later runs find it in the state.
"""

from __future__ import annotations

import json
from pathlib import Path

import pulumi

from gpufleet.errors import InputError

FILE = "imports.json"


def take_over(fleet_file: Path) -> None:
    """Import what the list beside the fleet file names, instead of creating it. Without a list, nothing.

    Raises InputError for a list that cannot be read.
    """
    path = fleet_file.with_name(FILE)
    if not path.is_file():
        return
    try:
        listed = {(each["type"], each["name"]): str(each["id"]) for each in json.loads(path.read_bytes())}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path.parent.name}/{FILE} is not a list of objects with type, name and id ({error!r})",
            remedy="correct it, or delete it: the stack then creates what it lists",
        ) from None

    def imported(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        found = listed.get((args.type_, args.name))
        if found is None:
            return None
        options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(import_=found))
        return pulumi.ResourceTransformationResult(args.props, options)

    pulumi.runtime.register_stack_transformation(imported)
