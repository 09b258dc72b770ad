"""Writes data/instances.json, the hardware of all instance types: `python -m gpufleet.catalog.shipped`.

The figures are those of DescribeInstanceTypes and DescribeInstanceTypeOfferings as moto ships them, with
corrections.json where AWS's own pages contradict them. Types have an accelerator, a price in ec2_prices.csv
(nodes without GPUs), or a correction.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from gpufleet.catalog import DATA
from gpufleet.catalog.aws_shapes import has_accelerator, instance_from_aws
from gpufleet.catalog.models import InstanceType
from gpufleet.catalog.price_tables import EC2, read_table
from gpufleet.catalog.store import INSTANCES, instances_text

_RESOURCES = files("moto") / "ec2" / "resources"
CORRECTIONS = "corrections.json"


def read_dump() -> dict[str, dict[str, Any]]:
    """Return moto's copy of DescribeInstanceTypes by name."""
    packed = (_RESOURCES / "instance_types.json.gz").read_bytes()
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(packed))
    return found


def read_offerings() -> dict[str, set[str]]:
    """Return the regions of each type from moto's copy of DescribeInstanceTypeOfferings."""
    offered: dict[str, set[str]] = defaultdict(set)
    for path in (_RESOURCES / "instance_type_offerings" / "region").iterdir():
        text = path.read_bytes()
        for each in json.loads(gzip.decompress(text) if path.name.endswith(".gz") else text):
            offered[each["InstanceType"]].add(path.name.partition(".")[0])
    return offered


def shipped_instances() -> list[InstanceType]:
    """Return the hardware of all types of the catalog, without prices."""
    dump, offered = read_dump(), read_offerings()
    known = json.loads((DATA / CORRECTIONS).read_text(encoding="utf-8"))
    regions = {
        each["name"] for each in json.loads((DATA / "regions.json").read_text(encoding="utf-8"))["regions"]
    }
    priced = {row["type"] for row in read_table(DATA / EC2)}
    source = f"moto {version('moto')} ec2/resources/instance_types.json.gz = DescribeInstanceTypes dump"
    found = []
    for name, info in dump.items():
        correction = dict(known["corrections"].get(name, {}))
        if has_accelerator(info) or name in priced or correction:
            item = instance_from_aws(info, source=source)
            peak = correction.pop("card_peak_gbps", None)
            cards = (
                item.cards
                if peak is None
                else tuple(card.model_copy(update={"peak_gbps": peak}) for card in item.cards)
            )
            accelerator = correction.pop("accelerator", {})
            if item.accelerator is not None:
                accelerator = item.accelerator.model_dump() | accelerator
            facts = item.model_dump() | {
                "accelerator": accelerator or None,
                "cards": cards,
                "regions": offered[name] & regions,
                "gpudirect_rdma": None if "gpudirect_rdma" in correction.get("unverified", ()) else False,
            }
            found.append(InstanceType.model_validate(facts | correction))
    return [*found, *(InstanceType.model_validate(each) for each in known["added"])]


if __name__ == "__main__":
    (DATA / INSTANCES).write_text(instances_text(shipped_instances()), encoding="utf-8")
