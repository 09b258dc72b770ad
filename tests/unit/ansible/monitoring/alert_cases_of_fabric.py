"""Alerts of the fabric: series that fire them, and series of the same metrics that do not."""

from __future__ import annotations

from .alert_cases import DAY, Case, unit


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


CASES = (
    Case(
        "InfinibandPortDown",
        "15m",
        port("node_infiniband_state_id", "4+0x10 1+0x20"),
        port("node_infiniband_state_id", "4+0x30"),
        PORT | {"role": "gpu"},
        "port mlx5_4/1 of dgx01 is in use and is down",
        # A port that was never plugged in.
        (port("node_infiniband_state_id", "1+0x30"),),
    ),
    # It stays down for two days.
    Case(
        "InfinibandPortDown",
        "50h",
        port("node_infiniband_state_id", "4+0x60 1+0x3000"),
        port("node_infiniband_state_id", "4+0x60 1+0x100 4+0x2900"),
        PORT | {"role": "gpu"},
        "port mlx5_4/1 of dgx01 is in use and is down",
    ),
    # A rail of the fleet file was never up; a port that is no rail was.
    Case(
        "InfinibandPortDown",
        "20m",
        port("node_infiniband_state_id", "1+0x30") | {'gpufleet:fabric_device{device="mlx5_4"}': "1+0x30"},
        port("node_infiniband_state_id", "4+0x10 1+0x30")
        | {'gpufleet:fabric_device{device="mlx5_5"}': "1+0x30"},
        PORT | {"role": "gpu"},
        "port mlx5_4/1 of dgx01 is in use and is down",
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
