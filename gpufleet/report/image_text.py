"""Images of a site's nodes on a terminal: versions and drives; and the cluster's add-ons and buckets."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from gpufleet.plan.image_models import ImageSoftwarePlan
from gpufleet.plan.models import CloudSitePlan, KubernetesPlan, NodeGroupPlan
from gpufleet.report.cost_text import cost_table
from gpufleet.report.tables import print_table

_LEGEND = "'*' not read in AWS's notes of this image, 'unknown' no source has it"


def print_images(site: CloudSitePlan, console: Console) -> None:
    """Print the image of each node group and its software, the add-ons and the teams' access to buckets."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for group in site.node_groups:
        rows.setdefault(_row(group), []).append(group.name)
    if rows:
        table = cost_table(
            *("node group", "image", "release", "driver", "CUDA", "NCCL", "EFA", "NVMe", "user data")
        )
        for cells, names in rows.items():
            table.add_row(escape(", ".join(names)), *(escape(cell) for cell in cells))
        print_table(table, console)
    marked = any("*" in cell or cell == "unknown" for cells in rows for cell in cells)
    notes = [_LEGEND] if marked else []
    if site.kubernetes is not None:
        notes += _cluster_lines(site.kubernetes)
    for line in notes:
        console.print(f"  {escape(line)}", soft_wrap=True)


def _cluster_lines(cluster: KubernetesPlan) -> Iterator[str]:
    addons = (
        f"{name} {version}{'*' if name in cluster.unverified_addons else ''}"
        for name, version in cluster.addon_versions.items()
    )
    system = cluster.system_nodes.image_release
    yield f"EKS {cluster.version}, system nodes {system}; add-ons {', '.join(addons)}"
    if cluster.unverified_addons:
        yield "'*' of an add-on: its version was not read in AWS's pages"
    for team in cluster.teams:
        if team.buckets:
            reached = ", ".join(
                f"{each.storage} ({_access(each.write)}{', mounted' if each.mount else ''})"
                for each in team.buckets
            )
            yield f"pods of {team.name} reach {reached}"
        if team.file_systems:
            mounted = ", ".join(f"{each.storage} ({_access(each.write)})" for each in team.file_systems)
            yield f"pods of {team.name} mount {mounted}"


def _access(write: bool) -> str:
    return "read-write" if write else "read"


def _row(group: NodeGroupPlan) -> tuple[str, ...]:
    nvme, parts = group.local_nvme, len(group.user_data)
    drives = f"{nvme.drives} x {nvme.gb // nvme.drives:,} GB" if nvme is not None else "not used"
    if nvme is not None and nvme.mount is not None:
        drives += f" at {nvme.mount}"
    return (
        _name(group),
        group.image_release or "your own",
        *_software(group),
        drives,
        f"{parts} part{'' if parts == 1 else 's'}" if parts else "none",
    )


def _name(group: NodeGroupPlan) -> str:
    """Return the image's name; EKS's without what all have in common and the release, which is beside it."""
    if group.image_kind != "eks-release":
        return group.image
    return group.image.removeprefix("amazon-eks-node-").rpartition("-v")[0]


def _software(group: NodeGroupPlan) -> tuple[str, ...]:
    names = ("driver", "cuda", "nccl", "efa")
    if group.software is None:
        return ("unknown" if group.image_release == "" else "-",) * len(names)
    absent = ("cuda", "nccl") if group.software.accelerator == "neuron" else ()
    return tuple("-" if name in absent else _version(group.software, name) for name in names)


def _version(software: ImageSoftwarePlan, name: str) -> str:
    if name in software.in_containers:
        return "in containers"
    version = getattr(software, name)
    return f"{version or 'unknown'}{'*' if version and name in software.unverified else ''}"
