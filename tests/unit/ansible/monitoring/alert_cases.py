"""For every alert: series that fire it, and series of the same metrics that do not."""

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


def port(metric: str, values: str) -> dict[str, str]:
    """A series of one InfiniBand port."""
    return {f'{metric}{{instance="dgx01", device="mlx5_4", port="1", role="gpu"}}': values}


PORT = {"instance": "dgx01", "device": "mlx5_4", "port": "1"}
ERRORS = ("symbol_error", "port_errors_received", "local_link_integrity_errors", "link_error_recovery")


def errors(symbol: str) -> dict[str, str]:
    """The error counters of a port, of which one grows."""
    return {
        series: value
        for name in ERRORS
        for series, value in port(
            f"node_infiniband_{name}_total", symbol if name == "symbol_error" else "0+0x120"
        ).items()
    }


def ports(up: int, rate: str = "5e10+0x30") -> dict[str, str]:
    """Eight ports of a node, some of them active."""
    found = {"gpufleet:ports_expected": "8+0x30", "gpufleet:link_bytes_per_second": "5e10+0x30"}
    for index in range(8):
        labels = f'{{instance="dgx01", device="mlx5_{index}", port="1", role="gpu"}}'
        found[f"node_infiniband_state_id{labels}"] = f"{4 if index < up else 1}+0x30"
        found[f"node_infiniband_rate_bytes_per_second{labels}"] = rate
    return found


def rails(up: int) -> dict[str, str]:
    """Eight ports of a node, of which so many are active, and a storage port as good as they."""
    found = ports(up) | {f'gpufleet:fabric_device{{device="mlx5_{index}"}}': "1+0x30" for index in range(8)}
    storage = '{instance="dgx01", device="mlx5_12", port="1", role="gpu"}'
    return found | {
        f"node_infiniband_state_id{storage}": "4+0x30",
        f"node_infiniband_rate_bytes_per_second{storage}": "5e10+0x30",
    }


def gpus(count: int, wanted: int = 8) -> dict[str, str]:
    """Some GPUs of a node that should have eight."""
    found = {"gpufleet:gpus_expected": f"{wanted}+0x10"}
    for index in range(count):
        found |= gpu("DCGM_FI_DEV_GPU_TEMP", "40+0x10", index)
    return found


def load(busy: int) -> dict[str, str]:
    """Eight GPUs of a job, some of them working."""
    found = {'slurm_gpus_allocated{partition="", instance="ctl01"}': "8+0x240"}
    for index in range(8):
        found |= gpu("DCGM_FI_DEV_GPU_UTIL", f"{90 if index < busy else 0}+0x240", index)
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
        "5m",
        gpu("DCGM_FI_DEV_XID_ERRORS", "79+0x5"),
        gpu("DCGM_FI_DEV_XID_ERRORS", "0+0x5"),
        GPU,
        "GPU 3 of dgx01: the last Xid is 79",
        tuple(gpu("DCGM_FI_DEV_XID_ERRORS", f"{xid}+0x5") for xid in (13, 31, 43, 45)),
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
        "GpuMissing", "3m", gpus(7), gpus(8), {"instance": "dgx01"}, "dgx01 shows 7 GPUs, which are too few"
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
)

FABRIC_CASES = (
    Case(
        "InfinibandPortDown",
        "15m",
        port("node_infiniband_state_id", "4+0x10 1+0x20"),
        port("node_infiniband_state_id", "4+0x30"),
        PORT | {"role": "gpu"},
        "port mlx5_4/1 of dgx01 was up and is down",
        # A port that was never plugged in.
        (port("node_infiniband_state_id", "1+0x30"),),
    ),
    Case(
        "InfinibandPortsMissing",
        "15m",
        rails(7),
        rails(8),
        {"instance": "dgx01"},
        "dgx01 has 7 ports at full rate, which are too few",
        near=(ports(8),),
    ),
    Case(
        "InfinibandPortSlow",
        "20m",
        port("node_infiniband_rate_bytes_per_second", "5e10+0x10 2.5e10+0x20")
        | port("node_infiniband_state_id", "4+0x30"),
        port("node_infiniband_rate_bytes_per_second", "5e10+0x30")
        | port("node_infiniband_state_id", "4+0x30"),
        PORT,
        "port mlx5_4/1 of dgx01 has come up slower than it was: 25GB/s",
    ),
    Case(
        "InfinibandErrors",
        "60m",
        errors("0+5x60"),
        errors("0+1x60"),
        PORT,
        "port mlx5_4/1 of dgx01 had 300 errors in an hour",
    ),
    Case(
        "InfinibandLinkFlapping",
        "26h",
        port("node_infiniband_link_downed_total", DAY.format(8)),
        port("node_infiniband_link_downed_total", DAY.format(4)),
        PORT | {"role": "gpu"},
        "port mlx5_4/1 of dgx01 went down 8 times in a day",
    ),
    Case(
        "SubnetManagerDown",
        "3m",
        unit("gpufleet-opensm.service", "active", "0+0x10", "0+0x10"),
        unit("gpufleet-opensm.service", "active", "0+0x10", "1+0x10"),
        {},
        "no host manages the InfiniBand subnet: a port that comes up now stays unusable",
    ),
    Case(
        "SubnetManagerNoStandby",
        "15m",
        unit("gpufleet-opensm.service", "active", "0+0x20", "1+0x20"),
        unit("gpufleet-opensm.service", "active", "1+0x20", "1+0x20"),
        {},
        "only one subnet manager runs",
        # A site that declares only one.
        (unit("gpufleet-opensm.service", "active", "1+0x20"),),
    ),
)

CASES = GPU_CASES + FABRIC_CASES
