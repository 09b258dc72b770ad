"""A rack site from the files of a Slurm that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.adopt.document import fleet_document
from gpufleet.adopt.remarks import AdoptedSite
from gpufleet.adopt.slurm import read_slurm, slurm_sites
from gpufleet.catalog import load_catalog
from gpufleet.checks import validate
from gpufleet.errors import InputError

CONF = """\
# The site's own
ClusterName=DC1
SlurmctldHost=ctl01(10.60.0.10)
SlurmctldHost=ctl02
SchedulerType=sched/backfill   # a comment
Include nodes.conf
PartitionName=DEFAULT MaxTime=1-12 State=UP
PartitionName=gpu Nodes=ALL Default=YES
PartitionName=debug Nodes=dgx[001-002] MaxTime=30 PriorityTier=10 \\
    AllowAccounts=research
"""
NODES = """\
NodeName=DEFAULT Gres=gpu:h100:8(S:0-1) RealMemory=2063000
NodeName=dgx[001-004]
nodename=dgx[006-008] CPUs=224
NodeName=cpu[01-02] Gres= CPUs=64
"""


def sites(folder: Path, conf: str = CONF, nodes: str = NODES, gres: str = "") -> list[AdoptedSite]:
    (folder / "slurm.conf").write_text(conf)
    (folder / "nodes.conf").write_text(nodes)
    if gres:
        (folder / "gres.conf").write_text(gres)
    return slurm_sites(read_slurm(folder), load_catalog())


def remarks(site: AdoptedSite) -> str:
    return "\n".join(f"{each.subject}: {each.text}" for each in site.remarks)


def test_site_has_the_nodes_controllers_and_partitions_of_the_files(tmp_path: Path) -> None:
    (site,) = sites(tmp_path)
    assert site.fields == {
        "site": "dc1",
        "system": "dgx-h100",
        "nodes": "dgx[001-004,006-008]",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
        "controllers": ["ctl01", "ctl02"],
        "scheduler": "slurm",
        "slurm": {
            "cluster": "DC1",
            "partitions": [
                {"name": "gpu", "default": True, "max_time": "36 h"},
                {"name": "debug", "nodes": "dgx[001-002]", "max_time": "30 min", "priority": 10},
            ],
        },
    }
    reported = remarks(site)
    assert "cpu[01-02]: nodes without GPUs" in reported
    assert "compare schedulertype" in reported
    assert "debug: accounts research" in reported


def test_document_of_the_site_is_a_valid_fleet_file(tmp_path: Path) -> None:
    conf = (
        CONF.replace("DC1", "dc1")
        .replace("SlurmctldHost=ctl02\n", "")
        .replace(" \\\n    AllowAccounts=research", "")
    )
    made = sites(tmp_path, conf)
    text = fleet_document(
        "atlas",
        "dc",
        (),
        made,
        budget="1000 USD",
        tags={"team": "ml", "cost-center": "cc-1", "project": "atlas"},
        channel="2026.11",
    )
    file = tmp_path / "stacks" / "dc" / "fleet.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    plan = validate(str(file), root=tmp_path).plan
    assert [host.name for host in plan.hosts if host.role == "gpu"] == [
        f"dgx00{n}" for n in (1, 2, 3, 4, 6, 7, 8)
    ]
    assert all(f"# - dc1: {each.subject}: {each.text}" in text for each in made[0].remarks)


def test_other_kinds_of_gpu_nodes_become_a_site_of_their_own(tmp_path: Path) -> None:
    nodes = f"{NODES}NodeName=old[01-04] Gres=gpu:a100:8\n"
    first, second = sites(tmp_path, nodes=nodes)
    assert (second.name, second.fields["system"], second.fields["nodes"]) == (
        "dc1-2",
        "dgx-a100",
        "old[01-04]",
    )
    assert "controllers" in first.fields and "controllers" not in second.fields
    assert "several kinds of GPU nodes" in remarks(second)


def test_type_of_gpus_comes_from_gres_conf_where_the_node_has_none(tmp_path: Path) -> None:
    gres = "Name=gpu Type=b200 File=/dev/nvidia[0-7]\n"
    (site,) = sites(tmp_path, nodes="NodeName=dgx01 Gres=gpu:8\n", gres=gres)
    assert (site.fields["system"], site.fields["nodes"]) == ("dgx-b200", "dgx01")


def test_unknown_gpus_are_named_and_not_guessed(tmp_path: Path) -> None:
    (site,) = sites(tmp_path, nodes="NodeName=n[1-2] Gres=gpu:mi300:8\n")
    assert site.fields["system"] == "unknown-mi300"
    assert "no system with 8 GPUs of type mi300" in remarks(site)


@pytest.mark.parametrize(
    ("limit", "written"),
    [
        ("UNLIMITED", None),
        ("INFINITE", None),
        ("90", "90 min"),
        ("90:30", "91 min"),
        ("2:00:00", "2 h"),
        ("7-0", "168 h"),
        ("1-06:30", "1830 min"),
        ("0-00:00:30", "1 min"),
    ],
)
def test_times_are_read_as_slurm_reads_them(limit: str, written: str | None, tmp_path: Path) -> None:
    conf = f"ClusterName=dc1\nPartitionName=p MaxTime={limit}\nInclude nodes.conf\n"
    (site,) = sites(tmp_path, conf)
    assert site.fields["slurm"]["partitions"][0].get("max_time") == written


@pytest.mark.parametrize(
    ("conf", "reported"), [(None, "has no slurm.conf"), ("NodeName=n1 CPUs=4\n", "no node with GPUs")]
)
def test_folder_without_what_is_needed_is_refused(conf: str | None, reported: str, tmp_path: Path) -> None:
    if conf is not None:
        (tmp_path / "slurm.conf").write_text(conf)
    with pytest.raises(InputError, match=reported):
        slurm_sites(read_slurm(tmp_path), load_catalog())
