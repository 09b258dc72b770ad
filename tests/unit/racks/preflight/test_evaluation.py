"""Verdicts: each fault is found, each missing measurement fails, and a healthy host passes."""

from __future__ import annotations

import pytest

from gpufleet.racks.preflight import evaluate, expectations_for, failed
from gpufleet.racks.preflight.evaluation import STOPPING, refusals

GIB = 1024**3
FULL = {"/": {"total_bytes": 10**9, "free_bytes": 0, "free_inodes": 1, "needed_gib": 0.5}}


def statuses(verdicts, host="dgx001"):
    return {verdict.check: verdict.status for verdict in verdicts if verdict.host == host}


def one(verdicts, check):
    (found,) = (verdict for verdict in verdicts if verdict.check == check)
    return found


def test_healthy_host_passes_and_unpublished_values_are_shown_but_not_judged(healthy, expected):
    found = statuses(evaluate({"dgx001": healthy()}, {"dgx001": expected()}))
    not_judged = {"cpu", "memory", "hugepages"}
    assert {check for check, status in found.items() if status == "not-judged"} == not_judged
    assert {status for check, status in found.items() if check not in not_judged} == {"pass"}
    assert {"os", "kernel", "gpus", "gpu-links", "nics", "nic-links", "clock", "disk"} <= set(found)


def test_missing_gpu_fails_with_both_counts(healthy, expected):
    host = healthy(gpus=healthy()["gpus"][:7])
    verdict = one(evaluate({"dgx001": host}, {"dgx001": expected()}), "gpus")
    assert (verdict.status, verdict.measured, verdict.expected) == ("fail", "7 H100", "8 H100")
    assert "7 GPUs on the PCI bus instead of 8" in verdict.message
    assert verdict.remedy


@pytest.mark.parametrize(("device", "name"), [("20b2", "8 A100"), ("beef", "8 unknown 10de:beef")])
def test_gpus_of_another_model_fail_by_name(healthy, expected, device, name):
    gpus = [gpu | {"device": device} for gpu in healthy()["gpus"]]
    verdict = one(evaluate({"dgx001": healthy(gpus=gpus)}, {"dgx001": expected()}), "gpus")
    assert verdict.status == "fail"
    assert verdict.measured == name
    assert "is no H100 of this system" in verdict.message


def test_missing_adapter_fails_and_extra_storage_adapters_pass(healthy, expected):
    short = healthy(nics=healthy()["nics"][:7])
    assert one(evaluate({"a": short}, {"a": expected()}), "nics").status == "fail"
    assert len(healthy()["nics"]) > 8
    assert one(evaluate({"a": healthy()}, {"a": expected()}), "nics").status == "pass"


@pytest.mark.parametrize(("part", "check"), [("gpus", "gpu-links"), ("nics", "nic-links")])
def test_narrow_link_fails_with_its_address(healthy, expected, part, check):
    devices = healthy()[part]
    devices[3]["link_width"] = 8
    verdict = one(evaluate({"a": healthy(**{part: devices})}, {"a": expected()}), check)
    assert verdict.status == "fail"
    assert f"{devices[3]['address']} x8 of x16" in verdict.message


def test_link_of_unknown_width_fails(healthy, expected):
    gpus = healthy()["gpus"]
    gpus[0]["link_width"] = None
    assert one(evaluate({"a": healthy(gpus=gpus)}, {"a": expected()}), "gpu-links").status == "fail"


@pytest.mark.parametrize(
    ("os", "status"),
    [
        ({"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04", "dgx_os": None}, "pass"),
        ({"id": "debian", "version": "12", "name": "Debian 12", "dgx_os": None}, "pass"),
        ({"id": "ubuntu", "version": "20.04", "name": "Ubuntu 20.04", "dgx_os": "5.5"}, "fail"),
        ({"id": "rocky", "version": "9.4", "name": "Rocky Linux 9.4", "dgx_os": None}, "fail"),
    ],
)
def test_only_supported_operating_systems_pass(healthy, expected, os, status):
    verdict = one(evaluate({"a": healthy(os=os)}, {"a": expected()}), "os")
    assert verdict.status == status
    if status == "fail":
        assert os["name"] in verdict.message
        assert "Ubuntu 22.04" in verdict.remedy


def test_unsynchronized_clock_fails(healthy, expected):
    host = healthy(clock={"synchronized": False, "max_error_us": 16_000_000})
    assert one(evaluate({"a": host}, {"a": expected()}), "clock").status == "fail"


def test_full_disk_fails_with_free_and_required_space(healthy, expected):
    disks = healthy()["disks"]
    disks["/var"]["free_bytes"] = 2 * GIB
    verdict = one(evaluate({"a": healthy(disks=disks)}, {"a": expected()}), "disk")
    assert verdict.status == "fail"
    assert verdict.message == "/var has 2.0 GiB free, 10 GiB are needed"


def test_file_system_without_inode_counts_passes_and_one_without_free_inodes_fails(healthy, expected):
    disks = healthy()["disks"]
    disks["/"]["free_inodes"] = None
    assert one(evaluate({"a": healthy(disks=disks)}, {"a": expected()}), "disk").status == "pass"
    disks["/"]["free_inodes"] = 0
    assert one(evaluate({"a": healthy(disks=disks)}, {"a": expected()}), "disk").status == "fail"


def test_secure_boot_and_translating_iommu_are_warnings(healthy, expected):
    gpus = [gpu | {"iommu": "DMA-FQ"} for gpu in healthy()["gpus"]]
    host = healthy(gpus=gpus, secure_boot={"efi": True, "enabled": True})
    found = statuses(evaluate({"dgx001": host}, {"dgx001": expected()}))
    assert found["secure-boot"] == found["gpu-iommu"] == "warn"
    assert "fail" not in found.values()
    passed = [gpu | {"iommu": "identity"} for gpu in healthy()["gpus"]]
    assert statuses(evaluate({"dgx001": healthy(gpus=passed)}, {"dgx001": expected()}))["gpu-iommu"] == "pass"


@pytest.mark.parametrize(
    ("field", "value", "check"),
    [("cpus", 256, "cpu"), ("memory_gib", 4096, "memory"), ("hugepages", 512, "hugepages")],
)
def test_expected_value_is_judged(healthy, expected, field, value, check):
    verdict = one(evaluate({"a": healthy()}, {"a": expected(**{field: value})}), check)
    assert verdict.status == "fail"
    assert verdict.expected


def test_memory_reserved_by_firmware_is_not_a_fault(healthy, expected):
    host = healthy(memory={"total_kib": int(2048 * 0.98 * 1024 * 1024)})
    assert one(evaluate({"a": host}, {"a": expected(memory_gib=2048)}), "memory").status == "pass"


@pytest.mark.parametrize(
    "part",
    ["os", "kernel", "cpu", "memory", "gpus", "nics", "clock", "disks", "iommu", "hugepages", "secure_boot"],
)
def test_every_missing_measurement_is_a_failure_with_its_reason(healthy, expected, part):
    host = healthy(errors={part: "PermissionError: no"})
    del host[part]
    bad = failed(evaluate({"a": host}, {"a": expected()}))
    assert bad
    assert all(verdict.message == f"{part} was not measured: PermissionError: no" for verdict in bad)


def test_unreachable_host_is_one_failure(expected):
    (verdict,) = evaluate({}, {"dgx001": expected()})
    assert (verdict.host, verdict.check, verdict.status) == ("dgx001", "measured", "fail")


def test_measurements_of_another_version_are_refused(healthy, expected):
    (verdict,) = evaluate({"a": healthy(schema=1)}, {"a": expected()})
    assert verdict.status == "fail"
    assert "another version" in verdict.message


def test_malformed_measurement_is_a_failure(healthy, expected):
    verdict = one(evaluate({"a": healthy(clock={"sync": 1})}, {"a": expected()}), "clock")
    assert verdict.status == "fail"
    assert "not what the role's module reports" in verdict.message


def test_only_the_host_that_differs_from_its_peers_is_named(healthy, expected):
    hosts = {f"dgx{n:03}": healthy() for n in range(1, 5)}
    hosts["dgx003"]["cpu"] = {"logical": 112, "sockets": 1}
    differing = [v for v in evaluate(hosts, dict.fromkeys(hosts, expected())) if v.check == "uniform"]
    assert [(v.host, v.status) for v in differing] == [("dgx003", "warn")]
    assert "processors: 112 here, 224 on 3 of 4" in differing[0].message


def test_hosts_of_another_role_are_not_peers(healthy, expected):
    hosts = {"dgx001": healthy(), "ctl01": healthy(cpu={"logical": 16, "sockets": 1})}
    wanted = {"dgx001": expected(), "ctl01": expected(peers="dc1 controller", gpu_node=False)}
    assert not [v for v in evaluate(hosts, wanted) if v.check == "uniform"]


def test_controller_needs_no_gpus(healthy, expected):
    host = healthy()
    for part in ("gpus", "nics", "iommu", "hugepages"):
        del host[part]
    found = statuses(evaluate({"ctl01": host}, {"ctl01": expected(gpu_node=False)}), "ctl01")
    assert not {"gpus", "nics", "gpu-links", "iommu"} & set(found)
    assert "fail" not in found.values()


def test_expectations_follow_from_plan_and_catalog(make_fleet, make_rack, catalog):
    wanted = expectations_for(make_fleet(make_rack()), catalog)
    assert list(wanted) == ["dgx001", "dgx002", "dgx003", "ctl01"]
    node = wanted["dgx001"]
    assert (node.gpus, node.gpu, node.gpu_device_ids, node.nics) == (8, "H100", frozenset({"2330"}), 8)
    assert not wanted["ctl01"].gpu_node


def test_system_without_published_adapters_does_not_judge_them(make_fleet, make_rack, catalog, healthy):
    wanted = expectations_for(make_fleet(make_rack(system="dgx-b300", gpu="B300")), catalog)
    assert wanted["dgx001"].nics is None
    assert one(evaluate({"dgx001": healthy()}, {"dgx001": wanted["dgx001"]}), "nics").status == "not-judged"


@pytest.mark.parametrize(
    ("offset", "status", "says"),
    [(0.0, "pass", ""), (-59.0, "pass", ""), (90.0, "fail", "90 s ahead"), (-300.0, "fail", "300 s behind")],
)
def test_wrong_time_fails_even_if_the_clock_reports_synchronized(healthy, expected, offset, status, says):
    host = healthy(clock={"synchronized": True, "max_error_us": 400, "offset_s": offset})
    verdict = one(evaluate({"a": host}, {"a": expected()}), "clock")
    assert (verdict.status, says in verdict.message) == (status, True)


@pytest.mark.parametrize(("sockets", "status"), [(2, "not-judged"), (1, "fail"), (None, "not-judged")])
def test_empty_cpu_socket_fails(healthy, expected, sockets, status):
    host = healthy(cpu={"logical": 224, "sockets": sockets})
    assert one(evaluate({"a": host}, {"a": expected(cpu_sockets=2)}), "cpu").status == status


def test_memory_and_sockets_of_a_system_come_from_the_catalog(make_fleet, make_rack, catalog):
    from gpufleet.racks.preflight import expectations_for

    known = expectations_for(make_fleet(make_rack()), catalog)["dgx001"]
    assert known.cpu_sockets == catalog.system("dgx-h100").cpu_sockets == 2
    assert known.memory_gib == pytest.approx(1862.6, abs=0.1)
    unknown = expectations_for(make_fleet(make_rack(system="dgx-b200")), catalog)["dgx001"]
    assert (unknown.cpu_sockets, unknown.memory_gib) == (None, None)


@pytest.mark.parametrize(
    ("reported", "offset"),
    [(105.0, 0.0), (100.0, 0.0), (40.0, -60.0), (170.0, 60.0), ("late", None), (None, None)],
)
def test_host_time_must_be_within_the_time_of_its_task(reported, offset):
    from gpufleet.racks.events import TaskEvent
    from gpufleet.racks.preflight.run import _with_clock_offset

    event = TaskEvent("ok", "a", "Measure the host", "preflight", started_s=100.0, ended_s=110.0)
    clock = _with_clock_offset({"clock": {"synchronized": True, "time_s": reported}}, event)["clock"]
    assert clock.get("offset_s") == offset


@pytest.mark.parametrize(
    ("changes", "checks"),
    [
        ({}, []),
        ({"gpus": [], "clock": {"synchronized": False, "max_error_us": 0}}, []),
        ({"os": {"id": "plan9", "version": "4", "name": "Plan 9", "dgx_os": None}}, ["os"]),
        (
            {"disks": FULL, "os": {"id": "debian", "version": "11", "name": "x", "dgx_os": None}},
            ["os", "disk"],
        ),
        ({"schema": 0}, ["measured"]),
    ],
)
def test_run_excludes_hosts_with_failed_verdicts(healthy, expected, changes, checks):
    host = healthy(**changes)
    found = refusals("dgx001", host, expected())
    assert [verdict.check for verdict in found] == checks
    verdicts = evaluate({"dgx001": host}, {"dgx001": expected()})
    assert found == tuple(verdict for verdict in failed(verdicts) if verdict.check in STOPPING)
