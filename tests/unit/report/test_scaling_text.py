"""What `plan` prints of what sets the sizes of node groups."""

from __future__ import annotations

from typing import Any

from gpufleet.report.scaling_text import scaling_lines, sharing_lines
from tests.unit.plan.fleets import block, group, on_demand, plan_of, spot


def lines(autoscaler: dict[str, Any] | None, *groups: dict[str, Any], **site: Any) -> list[str]:
    settings: dict[str, Any] = {"private_cidrs": ["10.60.0.0/24"]}
    if autoscaler is not None:
        settings["autoscaler"] = autoscaler
    (found,) = plan_of(*groups, scheduler="kubernetes", kubernetes=settings, **site).cloud
    assert found.kubernetes is not None
    return list(scaling_lines(found, found.kubernetes))


GROUPS = (
    group("sweep", "g6.xlarge", spot(0, 16)),
    group("steady", "g6.xlarge", on_demand(2, 2)),
    group("bought", "p5.48xlarge", block(1), zones=["us-east-1a"]),
    group("drawn", "g6.xlarge", on_demand(0, 2)),
)
ORDER = {"ordered_capacity": [{"name": "order", "nodes": 2, "groups": ["drawn"]}]}


def test_groups_of_the_autoscaler_are_listed_with_their_limits() -> None:
    (line,) = lines({}, *GROUPS, **ORDER)
    assert line == (
        "Cluster Autoscaler v1.35.2 (least-waste) adds nodes for pods that wait, ends nodes after 10 min"
        " without work: system 2-3, sweep 0-16"
    )


def test_nodes_that_never_end_are_said_so() -> None:
    (line,) = lines({"scale_down": False, "expander": "priority"}, *GROUPS, **ORDER)
    assert "(priority) adds nodes for pods that wait, ends no nodes: " in line


def test_groups_of_karpenter_are_listed_without_system_nodes() -> None:
    (line,) = lines({"kind": "karpenter"}, *GROUPS, **ORDER)
    assert line == (
        "Karpenter v1.14.1 adds nodes for pods that wait, ends nodes after 10 min without work: sweep 0-16"
    )
    (line,) = lines({"kind": "karpenter", "scale_down": False}, group("serve", "g6.xlarge", on_demand(1, 3)))
    assert line.endswith("wait, keeps the minimum of each group, ends no nodes: serve 1-3")


def test_groups_that_nothing_scales_are_listed_with_the_field_to_write() -> None:
    expected = ["no autoscaler sets the size of sweep 0-16 (kubernetes.autoscaler)"]
    assert lines(None, *GROUPS, **ORDER) == expected
    assert lines({"kind": "none"}, *GROUPS, **ORDER) == expected


def test_fleet_of_fixed_sizes_has_no_line() -> None:
    assert lines(None, *GROUPS[1:3]) == []


def test_groups_with_parts_of_gpus_say_what_pods_request() -> None:
    slices = {"time_slicing": {"replicas": 4}}
    groups = (
        group("whole", "p5.48xlarge", on_demand(0, 2)),
        group("turns", "g6.12xlarge", on_demand(0, 2)) | {"gpu_sharing": slices},
        group("both", "p5.48xlarge", on_demand(0, 2)) | {"gpu_sharing": slices, "mig_profile": "3g.40gb"},
        group("parts", "p5.48xlarge", on_demand(0, 2)) | {"mig_profile": "1g.10gb"},
        group("once", "g6.xlarge", on_demand(0, 2)) | {"gpu_sharing": {"mps": {"replicas": 2}}},
    )
    (site,) = plan_of(*groups, scheduler="kubernetes", kubernetes={"version": "1.35"}).cloud
    assert list(sharing_lines(site)) == [
        "turns: 4 pods share a GPU in turns; pods request nvidia.com/gpu.shared, 16 a node",
        (
            "both: a GPU is 2 x 3g.40gb, 4 pods share a MIG device in turns;"
            " pods request nvidia.com/mig-3g.40gb.shared, 64 a node"
        ),
        "parts: a GPU is 7 x 1g.10gb; pods request nvidia.com/mig-1g.10gb, 56 a node",
        "once: 2 pods share a GPU at once (MPS); pods request nvidia.com/gpu.shared, 2 a node",
    ]
