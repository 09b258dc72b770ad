"""Names, sizes and defaults of a cloud site stand in `gpufleet.kinds` and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import botocore.session
import pytest

from gpufleet.catalog import load_catalog
from gpufleet.components.cluster import SystemNodesArgs
from gpufleet.components.launch_template import VolumeArgs
from gpufleet.kinds import (
    CONTROL_PLANE_LOGS,
    LUSTRE_DEPLOYMENTS,
    METADATA_IOPS,
    CapacityKind,
    LustreDeployment,
    NatKind,
    WrittenDeployment,
)
from gpufleet.plan.node_groups import plan_volume
from gpufleet.spec.models import SystemNodes, Volume

ROOT = Path(__file__).resolve().parents[2]
KINDS = ROOT / "gpufleet" / "kinds.py"
SOURCES = sorted(
    path
    for folder in ("gpufleet", "components", "stacks", "policies")
    for path in (ROOT / folder).rglob("*.py")
    if path != KINDS
)


def lists_of_constants(path: Path) -> Iterator[tuple[int, set[object]]]:
    """Every list, set, tuple and `Literal[...]` of a file: its line, and the constants in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, {each.value for each in node.elts if isinstance(each, ast.Constant)}


@pytest.mark.parametrize(
    "names",
    [
        get_args(CapacityKind),
        get_args(NatKind),
        get_args(LustreDeployment),
        get_args(WrittenDeployment),
        CONTROL_PLANE_LOGS,
    ],
    ids=lambda names: " ".join(names),
)
def test_names_are_listed_in_one_place(names: tuple[str, ...]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        for line, constants in lists_of_constants(path)
        if constants >= set(names)
    ]
    assert found == [], "import the names from gpufleet.kinds"


def test_catalog_has_every_lustre_deployment_of_the_fleet_file() -> None:
    assert set(LUSTRE_DEPLOYMENTS) == set(get_args(WrittenDeployment))
    assert set(LUSTRE_DEPLOYMENTS.values()) == {tier.deployment for tier in load_catalog().lustre_tiers}


def test_component_defaults_equal_the_fleet_file_defaults() -> None:
    volume = plan_volume(Volume())
    assert VolumeArgs() == VolumeArgs(
        size_gib=volume.size_gib, iops=volume.iops, throughput=volume.throughput
    )
    nodes, single = SystemNodes(), SystemNodesArgs()
    assert (single.instance_types, single.min_size, single.max_size) == (
        nodes.instance_types,
        nodes.min,
        nodes.max,
    )


def test_control_plane_logs_are_all_that_eks_has() -> None:
    kinds = botocore.session.get_session().get_service_model("eks").shape_for("LogType").enum
    assert set(CONTROL_PLANE_LOGS) == set(kinds)


def test_metadata_iops_are_sorted() -> None:
    assert list(METADATA_IOPS) == sorted(METADATA_IOPS)
