"""What real tools printed on real hardware, read by the health check."""

from __future__ import annotations

import csv
from collections import Counter

import pytest
from health import gpus, kernel_faults, sxid, xid
from health.config import Config
from health.readings import GPU_FIELDS

from tests.captures import read_capture

CONFIG = Config(node="n", gpus=8, gpu="H100")


def counts(text: str) -> Counter[tuple[str, int]]:
    return Counter((line.bus, line.xid) for line in xid.parse(text))


def actions(text: str) -> set[tuple[int, str]]:
    """(Xid, action) of a log."""
    return {
        (line.xid, xid.action_of(line, CONFIG, mig=False, uvm_used=True))
        for line in [*xid.parse(text), *sxid.parse(text)]
    }


def test_double_bit_errors_with_what_follows_them() -> None:
    text = read_capture("kernel/dmesg_xid48-63-94_dbe-remap.log")
    assert actions(text) == {(48, "RESET"), (63, "MONITOR"), (94, "MONITOR")}
    assert {bus for bus, _ in counts(text)} == {"0000:19:00"}
    (found,) = kernel_faults.check(text, CONFIG)
    assert found.check == "peermem"


def test_a_gsp_that_does_not_answer() -> None:
    text = read_capture("kernel/dmesg_xid119_gsp-timeout.log")
    assert actions(text) == {(119, "RESET")}
    assert {bus for bus, _ in counts(text)} == {"0000:9b:00"}


def test_errors_of_programs_are_advice_and_a_storm_is_one_finding() -> None:
    assert actions(read_capture("kernel/dmesg_iso_xid13-43_oom.log")) == {(13, "MONITOR"), (43, "MONITOR")}
    text = read_capture("kernel/dmesg_iso_xid13-storm.log")
    assert actions(text) == {(13, "MONITOR"), (43, "MONITOR")}
    assert sum(counts(text).values()) == text.count("NVRM: Xid")
    assert len(counts(text)) < 20


def test_an_invalid_context_of_peermem_is_one_finding_with_its_count() -> None:
    text = read_capture("kernel/kmsg_nvidia-peermem.log")
    (found,) = kernel_faults.check(text, CONFIG)
    assert (found.check, found.message) == ("peermem", "nvidia-peermem reports an invalid context 7 times")
    assert xid.parse(text) == []


def test_logs_without_faults_have_none() -> None:
    for text in (
        read_capture("kernel/kmsg_boot.log"),
        read_capture("kernel/dmesg_short-iso.log"),
        read_capture("kernel/journald_azure_gpu-vm.log"),
    ):
        assert (xid.parse(text), sxid.parse(text), kernel_faults.check(text, CONFIG)) == ([], [], [])


def test_fabric_manager_s_log_has_one_sxid_that_is_not_fatal() -> None:
    (line,) = sxid.parse_manager(read_capture("kernel/fabricmanager.log"))
    assert (line.bus, line.xid, line.text) == ("0000:86:00", 12028, "Non-fatal, Link 61")
    assert sxid.action_of(line) == "MONITOR"


def query(text: str) -> tuple[dict[str, str], ...]:
    """The rows of `nvidia-smi --query-gpu` in a capture of many commands, by field."""
    fields = text.partition("nvidia-smi --query-gpu=")[2].partition(" ")[0].split(",")
    below = text.partition("nvidia-smi --query-gpu=")[2].split("####\n", 1)[1]
    rows = list(csv.reader(below.partition("\n\n")[0].splitlines()[1:], skipinitialspace=True))
    return tuple(dict(zip(fields, row, strict=True)) for row in rows)


@pytest.mark.parametrize(
    "name", ["nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt", "nvidia-smi/multi_h100-mig_590.48.01.txt"]
)
def test_every_field_that_is_asked_is_one_of_the_tool_s_and_a_healthy_gpu_has_no_fault(name: str) -> None:
    rows = query(read_capture(name))
    lines = [", ".join(row[name].removesuffix(" %") for name in GPU_FIELDS) for row in rows]
    (gpu,) = gpus.parse("\n".join(lines), GPU_FIELDS)
    assert gpu.bus == gpus.short_bus(rows[0]["pci.bus_id"])
    assert gpu.values["gpu_recovery_action"] == "None"
    for check in (gpus.check_ecc, gpus.check_recovery, gpus.check_pcie, gpus.check_throttle):
        assert check(CONFIG, None, [gpu]) == []  # type: ignore[arg-type]


def test_a_corrupt_inforom_is_named_with_its_gpu() -> None:
    from health.commands import CommandResult
    from health.readings import Readings

    text = read_capture("nvidia-smi/table_v100_inforom-corrupt_460.txt")
    readings = Readings(0.0, {"gpus": CommandResult(14, text)})
    assert readings.ok("gpus")
    assert readings.corrupt_inforoms() == ["0008:00:00.0"]
    found = gpus.check_inforom(CONFIG, readings, [gpus.Gpu(7, "0008:00:00")])
    assert [(each.subject, each.message) for each in found] == [("GPU 7", "its InfoROM is corrupt")]
