"""FSx for Lustre."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

LUSTRE = "cloud.0.storage.0.lustre"
FIELD = "cloud[0].storage[0].lustre"
EFA = {f"{LUSTRE}.efa": True, f"{LUSTRE}.capacity": "38400 GiB"}


@pytest.mark.parametrize("capacity", ["1200 GiB", "2400 GiB", "4800 GiB", "24000 GiB"])
def test_sizes_supported_by_fsx_pass(judge: Judge, capacity: str) -> None:
    assert judge({f"{LUSTRE}.capacity": capacity}).rules == set()


@pytest.mark.parametrize(
    ("capacity", "near"),
    [
        ("3600 GiB", "'2400 GiB' or '4800 GiB'"),
        ("100 GiB", "'1200 GiB'"),
        ("1300 GiB", "'1200 GiB' or '2400 GiB'"),
        ("25 TiB", "'24000 GiB' or '26400 GiB'"),
    ],
)
def test_sizes_between_the_steps_are_refused_with_the_nearest(judge: Judge, capacity: str, near: str) -> None:
    finding = judge({f"{LUSTRE}.capacity": capacity}).only("lustre-capacity")
    assert finding.field == f"{FIELD}.capacity"
    assert finding.value == capacity
    assert finding.remedy == f"write {near}"
    assert finding.message.endswith(
        " GiB is not a size of a file system: a multiple of 2,400 GiB, or 1,200 GiB"
    )


@pytest.mark.parametrize(
    ("throughput", "multiple"), [(125, 38_400), (250, 19_200), (500, 9_600), (1000, 4_800)]
)
def test_efa_enabled_sizes_depend_on_the_throughput(judge: Judge, throughput: int, multiple: int) -> None:
    changes: dict[str, Any] = {
        f"{LUSTRE}.efa": True,
        f"{LUSTRE}.throughput": f"{throughput} MB/s/TiB",
        f"{LUSTRE}.capacity": f"{multiple} GiB",
    }
    assert judge(changes).rules == set()
    finding = judge(changes | {f"{LUSTRE}.capacity": "2400 GiB"}).only("lustre-capacity")
    assert f"'{multiple} GiB'" in finding.remedy
    assert finding.message == (
        f"2,400 GiB is not a size of an EFA-enabled file system at {throughput} MB/s/TiB:"
        f" a multiple of {multiple:,} GiB"
    )


def test_persistent_file_system_without_throughput_is_refused(judge: Judge) -> None:
    finding = judge({f"{LUSTRE}.throughput": GONE}).only("lustre-throughput")
    assert finding.field == f"{FIELD}.throughput"
    assert "125 MB/s/TiB" in finding.remedy


@pytest.mark.parametrize(
    ("deployment", "throughput", "near"),
    [
        ("persistent-2", "200 MB/s/TiB", "'250 MB/s/TiB'"),
        ("persistent-2", "50 MB/s/TiB", "'125 MB/s/TiB'"),
        ("persistent-1", "125 MB/s/TiB", "'100 MB/s/TiB'"),
    ],
)
def test_throughput_that_is_not_sold_is_refused(
    judge: Judge, deployment: str, throughput: str, near: str
) -> None:
    finding = judge({f"{LUSTRE}.deployment": deployment, f"{LUSTRE}.throughput": throughput}).only(
        "lustre-throughput"
    )
    assert finding.value == throughput
    assert near in finding.remedy


def test_throughput_of_a_scratch_file_system_is_refused(judge: Judge) -> None:
    changes = {f"{LUSTRE}.deployment": "scratch-2"}
    assert "fixed" in judge(changes).only("lustre-throughput").message
    assert judge(changes | {f"{LUSTRE}.throughput": GONE}).rules == set()


def test_efa_on_another_deployment_type_is_refused(judge: Judge) -> None:
    finding = judge(
        {
            f"{LUSTRE}.efa": True,
            f"{LUSTRE}.deployment": "persistent-1",
            f"{LUSTRE}.throughput": "100 MB/s/TiB",
        }
    ).only("lustre-efa")
    assert finding.field == f"{FIELD}.efa"


@pytest.mark.parametrize(
    ("capacity", "iops", "free"),
    [
        ("4800 GiB", 3000, 6000),
        ("12000 GiB", 6000, 12_000),
        ("48000 GiB", 12_000, 24_000),
        ("480000 GiB", 180_000, 192_000),
    ],
)
def test_fewer_metadata_iops_than_the_capacity_includes_are_a_warning(
    judge: Judge, capacity: str, iops: int, free: int
) -> None:
    changes = {f"{LUSTRE}.metadata_iops": iops, f"{LUSTRE}.capacity": capacity}
    finding = judge(changes).only("lustre-metadata-iops", "warning")
    assert finding.remedy == f"write '{free}'"
    assert judge({**changes, f"{LUSTRE}.metadata_iops": free}).rules == set()


@pytest.mark.parametrize("iops", [1500, 3000, 6000, 12_000, 24_000, 192_000])
def test_supported_metadata_iops_pass(judge: Judge, iops: int) -> None:
    found = judge({f"{LUSTRE}.metadata_iops": iops, f"{LUSTRE}.capacity": "1200 GiB"})
    assert found.rules == set()


@pytest.mark.parametrize(
    ("iops", "near"),
    [
        (2000, "'3000'"),
        (13_000, "'12000' or '24000'"),
        (191_999, "'180000' or '192000'"),
    ],
)
def test_unsupported_metadata_iops_are_refused_with_the_nearest(judge: Judge, iops: int, near: str) -> None:
    finding = judge({f"{LUSTRE}.metadata_iops": iops}).only("lustre-metadata-iops")
    assert finding.remedy == f"write {near}"


def test_metadata_iops_on_another_deployment_type_are_refused(judge: Judge) -> None:
    judge(
        {
            f"{LUSTRE}.metadata_iops": 6000,
            f"{LUSTRE}.deployment": "scratch-2",
            f"{LUSTRE}.throughput": GONE,
        }
    ).only("lustre-metadata-iops")


def test_export_without_an_import_is_refused(judge: Judge) -> None:
    finding = judge({f"{LUSTRE}.export": True, f"{LUSTRE}.import_from": GONE}).only("lustre-options")
    assert finding.field == f"{FIELD}.export"
    assert judge({f"{LUSTRE}.export": True}).rules == set()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"import_from": GONE, "deployment": "scratch-2", "throughput": GONE},
        {"import_from": GONE, "backups": "91 d"},
        {"import_from": GONE, "backups": "36 h"},
    ],
    ids=["linked to a bucket", "scratch", "too long", "half a day"],
)
def test_backups_that_fsx_cannot_make_are_refused(judge: Judge, changes: dict[str, Any]) -> None:
    backups = {f"{LUSTRE}.backups": "7 d"}
    finding = judge(backups | {f"{LUSTRE}.{key}": value for key, value in changes.items()}).only(
        "lustre-options"
    )
    assert finding.field == f"{FIELD}.backups"


def test_backups_of_a_file_system_without_a_bucket_pass(judge: Judge) -> None:
    assert judge({f"{LUSTRE}.backups": "90 d", f"{LUSTRE}.import_from": GONE}).rules == set()


def test_efa_file_system_in_another_zone_than_its_nodes_is_a_warning(judge: Judge) -> None:
    changes: dict[str, Any] = {
        **EFA,
        f"{LUSTRE}.zone": "us-east-1b",
    }
    finding = judge(changes).only("lustre-efa-zone", "warning")
    assert "train" in finding.message
    assert "zone: us-east-1a" in finding.remedy
    assert judge(changes | {f"{LUSTRE}.zone": "us-east-1a"}).rules == set()
    assert judge({f"{LUSTRE}.zone": "us-east-1b"}).rules == set()
    assert judge(changes | {"cloud.0.node_groups.0.network": "ena"}).of("lustre-efa-zone") == []


def test_zone_of_the_nodes_that_cannot_run_near_an_efa_file_system_is_suggested(judge: Judge) -> None:
    changes: dict[str, Any] = {
        **EFA,
        f"{LUSTRE}.zone": "us-east-1b",
        "cloud.0.node_groups.0.zones": GONE,
        "cloud.0.node_groups.1.zones": ["us-east-1a"],
    }
    (finding,) = judge(changes).of("lustre-efa-zone")
    assert finding.message.endswith("but block cannot run there")
    assert finding.remedy == "use one zone for all, such as 'zone: us-east-1a'"
    (outside,) = judge(changes | {f"{LUSTRE}.zone": "us-east-1c"}).of("lustre-efa-zone")
    assert outside.message.endswith("but train, block cannot run there")
    assert outside.remedy == "use one zone for all, such as 'zone: us-east-1a'"


def test_more_efa_connections_than_a_file_system_takes_are_a_warning(judge: Judge) -> None:
    changes: dict[str, Any] = {
        **EFA,
        f"{LUSTRE}.zone": "us-east-1a",
        "cloud.0.node_groups.0.capacity": {"on_demand": {"min": 0, "max": 128}},
    }
    assert judge(changes).of("lustre-efa-connections") == []
    more = changes | {"cloud.0.node_groups.0.capacity": {"on_demand": {"min": 0, "max": 129}}}
    (finding,) = judge(more).of("lustre-efa-connections")
    assert finding.message.endswith(
        "takes 1,024 EFA connections, and its nodes have up to 1,032: train 129 nodes of 8"
    )
    assert judge(more | {"cloud.0.node_groups.0.network": "ena"}).of("lustre-efa-connections") == []
    assert judge(more | {"cloud.0.node_groups.0.zones": ["us-east-1b"]}).of("lustre-efa-connections") == []
    lustre = {"capacity": "38400 GiB", "throughput": "125 MB/s/TiB", "efa": True}
    away = {"name": "away", "mount": "/fsx/away", "lustre": {**lustre, "zone": "us-east-1b"}}
    plain = {"capacity": "1200 GiB", "throughput": "125 MB/s/TiB", "zone": "us-east-1a"}
    near = {"name": "near", "mount": "/fsx/near", "lustre": plain}
    for other in (away, near):
        reported = judge(more | {"cloud.0.storage.+": other})
        assert reported.fields("lustre-efa-connections") == [f"{FIELD}.efa"]
    assert judge(more | {f"{LUSTRE}.efa": False}).of("lustre-efa-connections") == []
