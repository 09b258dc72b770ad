"""Cost allocation tags of CUR 2.0: their keys in the column `resource_tags`, and which the report has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

if TYPE_CHECKING:
    import ibis.expr.types as ir

_SHOWN = 10


class TagNames(Struct, frozen=True):
    """The cost allocation tags of team, project and experiment: their names, or their keys in a report."""

    team: str = "team"
    project: str = "project"
    experiment: str = "experiment"


def tag_keys(name: str) -> tuple[str, ...]:
    """Return the keys that a report may have for the tag `name`, the usual one first.

    CUR 2.0 splits words and writes one `_` for other characters: `CostCenter` is `user_cost_center`, and
    `aws:autoscaling:groupName`, a tag of AWS itself, is `aws_autoscaling_group_name`. The key without split
    words (`user_costcenter`) is second.

    >>> tag_keys("CostCenter")
    ('user_cost_center', 'user_costcenter')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    split = re.sub(r"[^a-z0-9]+", "_", words)
    plain = name.lower().replace("-", "_").replace(":", "_")
    keys = (split if name.startswith("aws:") else f"user_{split}", f"user_{plain}")
    return tuple(dict.fromkeys(keys))


def find_keys(table: ir.Table, tags: TagNames) -> TagNames:
    """Return the key of each tag in `table`: the first of `tag_keys` that a row has, else the usual one.

    Reads the table only for tags with more than one possible key.
    """
    possible = {part: tag_keys(name) for part, name in asdict(tags).items()}
    unclear = {key for keys in possible.values() if len(keys) > 1 for key in keys}
    found: Mapping[str, Any] = {}
    if unclear:
        counts = {key: (tag_value(table, key) != "").sum() for key in unclear}
        found = table.aggregate(**counts).to_pyarrow().to_pylist()[0]
    return TagNames(
        **{part: next((key for key in keys if found.get(key)), keys[0]) for part, keys in possible.items()}
    )


def tag_value(table: ir.Table, key: str) -> Any:
    """Return the value of a key, empty without one: `resource_tags` is a map in Parquet, JSON text in CSV."""
    tags = table.resource_tags
    if tags.type().is_map():
        return tags.get(key, "").fill_null("")
    return _json(table)[key].str.fill_null("")


def missing_tags(table: ir.Table, sums: ir.Table, tags: TagNames, keys: TagNames) -> tuple[str, ...]:
    """Return a note if no row of the report has one of the tags: its costs and hours have no owner then."""
    used = {part: (sums[part] != "").sum() for part in asdict(tags)}
    rows: Mapping[str, Any] = sums.aggregate(**used).to_pyarrow().to_pylist()[0]
    names, spelled = asdict(tags), asdict(keys)
    missing = [f"the {part} tag '{names[part]}' ({spelled[part]})" for part in names if not rows[part]]
    if not missing:
        return ()
    options = ", ".join(f"--tag-{part}" for part in names)
    remedy = f"give another name ({options}), or activate the tag for cost allocation in the billing console"
    return (f"AWS: no row has {' or '.join(missing)}; {_known(table)}: {remedy}",)


def _known(table: ir.Table) -> str:
    tags = table.resource_tags
    keys = (tags if tags.type().is_map() else _json(table).cast("map<string, json>")).keys().unnest()
    found = table.select(key=keys).distinct().order_by("key").limit(_SHOWN + 1).to_pyarrow().to_pylist()
    if not found:
        return "the report has no tags"
    shown = ", ".join(each["key"] for each in found[:_SHOWN])
    return f"the report has {shown}{' and others' if len(found) > _SHOWN else ''}"


def _json(table: ir.Table) -> Any:
    return table.resource_tags.fill_null("{}").nullif("").fill_null("{}").cast("json")
