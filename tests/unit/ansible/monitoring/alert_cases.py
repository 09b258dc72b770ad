"""Alerts of GPUs: series that fire them, and series of the same metrics that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """An alert at a time `at`: with `fires` it fires, with labels and summary; with `quiet` it does not.

    Series are in promtool's notation, a value a minute. The series in `near` do not fire it
    either.
    """

    alert: str
    at: str
    fires: Mapping[str, str]
    quiet: Mapping[str, str]
    labels: Mapping[str, str]
    summary: str
    near: tuple[Mapping[str, str], ...] = field(default=())


def gpu(metric: str, values: str, index: int = 3) -> dict[str, str]:
    """A series of one GPU."""
    return {f'{metric}{{instance="dgx01", gpu="{index}", job="dcgm"}}': values}


GPU = {"instance": "dgx01", "gpu": "3"}
# 26 h in minutes, with an event an hour ago.
DAY = "0+0x1500 {}+0x60"


def xids(xid: str, values: str) -> dict[str, str]:
    """The exporter's count of an Xid, which the exporter serves for five minutes."""
    labels = f'instance="dgx01", gpu="3", job="dcgm", window_size_in_ms="300000", xid="{xid}"'
    return {f"DCGM_EXP_XID_ERRORS_COUNT{{{labels}}}": values}


def mig(metric: str, values: str, index: int, instances: int, more: str = "") -> dict[str, str]:
    """The series of a GPU in so many MIG instances: one each, with the same value."""
    labels = f'instance="dgx01", gpu="{index}", job="dcgm"{more}'
    return {
        f'{metric}{{{labels}, GPU_I_ID="{number}", GPU_I_PROFILE="1g.10gb"}}': values
        for number in range(1, instances + 1)
    }


def gpus(count: int, instances: int = 0) -> dict[str, str]:
    """Some GPUs of a node that should have eight."""
    found = {"gpufleet:gpus_expected": "8+0x10"}
    for index in range(count):
        if instances:
            found |= mig("DCGM_FI_DEV_GPU_TEMP", "40+0x10", index, instances)
        else:
            found |= gpu("DCGM_FI_DEV_GPU_TEMP", "40+0x10", index)
    return found


def load(busy: int) -> dict[str, str]:
    """Eight GPUs of a job, some of them working."""
    found = {'slurm_gpus_allocated{partition="", instance="ctl01"}': "8+0x240"}
    for index in range(8):
        found |= gpu("DCGM_FI_DEV_GPU_UTIL", f"{90 if index < busy else 0}+0x240", index)
    return found


def split_load(busy: int) -> dict[str, str]:
    """Eight GPUs in two MIG instances each; one instance of some of them works. Their utilization reads 0."""
    found = {'slurm_gpus_allocated{partition="", instance="ctl01"}': "8+0x240"}
    for index in range(8):
        found |= mig("DCGM_FI_DEV_GPU_UTIL", "0+0x240", index, 2)
        first, second = mig("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "", index, 2)
        found |= {first: f"{0.9 if index < busy else 0}+0x240", second: "0+0x240"}
    return found


def unit(name: str, state: str, first: str, second: str = "") -> dict[str, str]:
    """A unit of systemd on one or two hosts."""
    found = {f'node_systemd_unit_state{{instance="ctl01", name="{name}", state="{state}"}}': first}
    if second:
        found[f'node_systemd_unit_state{{instance="ctl02", name="{name}", state="{state}"}}'] = second
    return found


GPU_CASES = (
    Case(
        "GpuXid",
        "20m",
        xids("79", "_x10 1+0x4 _x30"),
        xids("79", "_x10 0+0x4 _x30"),
        GPU | {"xid": "79"},
        "GPU 3 of dgx01 had Xid 79 in the last hour",
        tuple(xids(xid, "_x10 1+0x4 _x30") for xid in ("13", "31", "43", "45")),
    ),
    # An hour after the last one it is over, and another Xid in between is an alert of its own.
    Case(
        "GpuXid",
        "80m",
        xids("79", "_x10 1+0x4 _x80") | xids("48", "_x60 1+0x4 _x30"),
        xids("79", "_x10 1+0x4 _x80") | xids("48", "_x95"),
        GPU | {"xid": "48"},
        "GPU 3 of dgx01 had Xid 48 in the last hour",
    ),
    Case(
        "GpuXidNeedsAction",
        "1m",
        {'gpufleet_health_xids{instance="dgx01", xid="79", action="REBOOT"}': "1+0x5"},
        {'gpufleet_health_xids{instance="dgx01", xid="31", action="MONITOR"}': "1+0x5"},
        {"instance": "dgx01", "xid": "79", "action": "REBOOT"},
        "Xid 79 on dgx01 requires REBOOT",
    ),
    Case(
        "GpuEccUncorrectable",
        "61m",
        gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0+0x30 1+0x60"),
        gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "1+0x120"),
        GPU,
        "GPU 3 of dgx01 had uncorrectable memory errors",
    ),
    Case(
        "GpuEccCorrectableBurst",
        "60m",
        gpu("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "0+100x60"),
        gpu("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "0+16x60"),
        GPU,
        "GPU 3 of dgx01 corrected 6k memory errors in an hour",
    ),
    Case(
        "GpuRowRemapFailure",
        "1m",
        gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", "1+0x5"),
        gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", "0+0x5"),
        GPU,
        "GPU 3 of dgx01 could not remap rows of its memory",
    ),
    Case(
        "GpuRowsRemapped",
        "26h",
        gpu("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", DAY.format(1)),
        gpu("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "1+0x1560"),
        GPU,
        "GPU 3 of dgx01 remapped rows for uncorrectable errors",
    ),
    Case(
        "GpuPagesRetiredLimit",
        "2m",
        gpu("DCGM_FI_DEV_RETIRED_DBE", "20+0x10") | gpu("DCGM_FI_DEV_RETIRED_SBE", "45+0x10"),
        gpu("DCGM_FI_DEV_RETIRED_DBE", "20+0x10") | gpu("DCGM_FI_DEV_RETIRED_SBE", "39+0x10"),
        GPU,
        "GPU 3 of dgx01 has retired 65 pages of its memory",
    ),
    Case(
        "NodeNeedsAttention",
        "31m",
        {'gpufleet_health_findings{instance="dgx01", check="peermem", action="advise"}': "1+0x40"},
        {'gpufleet_health_findings{instance="dgx01", check="peermem", action="advise"}': "1+0x10 0+0x30"},
        {"instance": "dgx01", "check": "peermem"},
        "the health check of dgx01 has reported peermem for half an hour",
    ),
    Case(
        "GpuPagesRetired",
        "26h",
        gpu("DCGM_FI_DEV_RETIRED_DBE", DAY.format(1)) | gpu("DCGM_FI_DEV_RETIRED_SBE", "0+0x1560"),
        gpu("DCGM_FI_DEV_RETIRED_DBE", "2+0x1560") | gpu("DCGM_FI_DEV_RETIRED_SBE", "1+0x1560"),
        GPU,
        "GPU 3 of dgx01 retired pages of its memory",
    ),
    Case(
        "GpuThermalThrottling",
        "20m",
        gpu("DCGM_FI_DEV_THERMAL_VIOLATION", "0+15e9x30"),
        gpu("DCGM_FI_DEV_THERMAL_VIOLATION", "0+5e9x30"),
        GPU,
        "GPU 3 of dgx01 is slowed by heat 25% of the time",
    ),
    Case(
        "GpuPowerThrottling",
        "90m",
        gpu("DCGM_FI_DEV_POWER_VIOLATION", "0+45e9x120"),
        gpu("DCGM_FI_DEV_POWER_VIOLATION", "0+25e9x120"),
        GPU,
        "GPU 3 of dgx01 is slowed by its power limit 75% of the time",
    ),
    Case(
        "NvlinkRecoveries",
        "61m",
        gpu("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "0+0x30 1+0x60"),
        gpu("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "4+0x120"),
        GPU,
        "NVLinks of GPU 3 of dgx01 had to recover",
    ),
    Case(
        "NvlinkErrors",
        "60m",
        gpu("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "0+2x60")
        | gpu("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "0+2x60"),
        gpu("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "0+1x60")
        | gpu("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "500+0x60"),
        GPU,
        "NVLinks of GPU 3 of dgx01 retransmit damaged packets",
    ),
    Case(
        "NvlinkRecoveryFailed",
        "61m",
        gpu("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", "0+0x30 1+0x60"),
        gpu("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", "4+0x120"),
        GPU,
        "an NVLink of GPU 3 of dgx01 did not recover",
    ),
    Case(
        "NvlinkRecoveryEvents",
        "60m",
        gpu("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "0+1x60"),
        gpu("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "500+0x60"),
        GPU,
        "NVLinks of GPU 3 of dgx01 recovered 60 times in an hour",
    ),
    Case(
        "NvlinkBitErrors",
        "20m",
        gpu("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", "2e-12+0x30"),
        gpu("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", "1.5e-254+0x30"),
        GPU,
        "NVLinks of GPU 3 of dgx01 have an effective bit error rate of 2e-12",
    ),
    Case(
        "NvswitchSxid",
        "2m",
        {'gpufleet_health_sxids{instance="dgx01", sxid="20034", action="RESET"}': "4+0x10"},
        {'gpufleet_health_sxids{instance="dgx01", sxid="12028", action="MONITOR"}': "4+0x10"},
        {"instance": "dgx01", "sxid": "20034", "action": "RESET"},
        "SXid 20034 of an NVSwitch of dgx01 requires RESET",
    ),
    Case(
        "GpuMissing",
        "3m",
        gpus(7),
        gpus(8),
        {"instance": "dgx01"},
        "dgx01 shows 7 GPUs, which are too few",
    ),
    # Seven GPUs in two MIG instances each are seven GPUs.
    Case(
        "GpuMissing",
        "3m",
        gpus(7, instances=2),
        gpus(8, instances=2),
        {"instance": "dgx01"},
        "dgx01 shows 7 GPUs, which are too few",
    ),
    Case(
        "GpuMissing",
        "6m",
        {'up{job="dcgm", instance="dgx01"}': "1+0x10", "gpufleet:gpus_expected": "8+0x10"},
        {'up{job="dcgm", instance="dgx01"}': "0+0x10", "gpufleet:gpus_expected": "8+0x10"},
        {"instance": "dgx01"},
        "dgx01 shows 0 GPUs, which are too few",
    ),
    Case(
        "DcgmExporterDown",
        "6m",
        {'up{job="dcgm", instance="dgx01"}': "0+0x10", 'up{job="node", instance="dgx01"}': "1+0x10"},
        {'up{job="dcgm", instance="dgx01"}': "1+0x10", 'up{job="node", instance="dgx01"}': "1+0x10"},
        {"instance": "dgx01", "job": "dcgm"},
        "DCGM of dgx01 does not answer",
        # A down node is one alert and not two.
        ({'up{job="dcgm", instance="dgx01"}': "0+0x10", 'up{job="node", instance="dgx01"}': "0+0x10"},),
    ),
    Case(
        "NodeUnfit",
        "6m",
        {'gpufleet_health_healthy{instance="dgx01"}': "0+0x10"},
        {'gpufleet_health_healthy{instance="dgx01"}': "1+0x10"},
        {"instance": "dgx01"},
        "dgx01 is not fit for jobs",
    ),
    Case(
        "HealthCheckStale",
        "120m",
        {'gpufleet_health_run_timestamp_seconds{instance="dgx01"}': "0+0x120"},
        {'gpufleet_health_run_timestamp_seconds{instance="dgx01"}': "0+60x120"},
        {"instance": "dgx01"},
        "the health check of dgx01 has not run for 2h 0m 0s",
    ),
    Case(
        "GpusHeldIdle",
        "4h",
        load(4),
        load(7),
        {"instance": "ctl01"},
        "50% of the GPUs that jobs hold have done nothing for an hour",
    ),
    Case(
        "GpusHeldIdle",
        "4h",
        split_load(4),
        split_load(7),
        {"instance": "ctl01"},
        "50% of the GPUs that jobs hold have done nothing for an hour",
    ),
)

CASES = GPU_CASES
