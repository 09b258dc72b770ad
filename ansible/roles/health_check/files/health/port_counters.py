"""Error counters of fabric ports: how they grow, and those that can grow no more."""

from __future__ import annotations

from health.config import Config
from health.finding import Finding
from health.memory import Memory
from health.ports import CABLE, CARRIER, Port, fabric_ports

HOUR, DAY = 3600.0, 86400.0
# The widths of PortCounters in bits (InfiniBand Architecture Specification; drivers/infiniband/core/sysfs.c):
# a counter that has reached its ceiling stays there.
CEILINGS = {
    "symbol_error": 2**16 - 1,
    "link_error_recovery": 2**8 - 1,
    "link_downed": 2**8 - 1,
    "port_rcv_errors": 2**16 - 1,
    "port_rcv_remote_physical_errors": 2**16 - 1,
    "port_rcv_switch_relay_errors": 2**16 - 1,
    "port_xmit_discards": 2**16 - 1,
    "port_xmit_constraint_errors": 2**8 - 1,
    "port_rcv_constraint_errors": 2**8 - 1,
    "local_link_integrity_errors": 2**4 - 1,
    "excessive_buffer_overrun_errors": 2**4 - 1,
    "VL15_dropped": 2**16 - 1,
}
# Of hw_counters those that count errors of the link or the fabric, and not requests, congestion marks or
# what applications do (docs.nvidia.com, Understanding mlx5 Linux counters).
HARDWARE_ERRORS = frozenset(
    {
        "duplicate_request",
        "implied_nak_seq_err",
        "local_ack_timeout_err",
        "out_of_buffer",
        "out_of_sequence",
        "packet_seq_err",
        "req_cqe_error",
        "resp_cqe_error",
        "resp_local_length_error",
        "rnr_nak_retry_err",
        "roce_adp_retrans_to",
        "rx_icrc_encapsulated",
    }
)


def check(config: Config, ports: list[Port], memory: Memory, now: float) -> list[Finding]:
    """Find link flaps in the last day, and other hourly errors.

    Counts since the last periodic run; a counter that is smaller than before was reset. A link that went down
    is counted by the port and by its network interface, and counts once.
    """
    found = []
    chosen = [port for port in fabric_ports(config, ports) if port.number]
    for port in chosen:
        before = memory.ports.get(port.name, {})
        since = now - before.get("time", now)
        grown = _grown(before.get("counters", {}), port.counters)
        flaps = [[at, count] for at, count in before.get("flaps", []) if now - at < DAY]
        downs = max(grown.get("link_downed", 0), grown.get(CARRIER, 0))
        if downs:
            flaps.append([now, downs])
        rates = {name: count * HOUR / since for name, count in grown.items()} if since > 0 else {}
        memory.ports[port.name] = {
            "time": now,
            "counters": port.counters,
            "flaps": flaps,
            "rates": {name: round(rate, 3) for name, rate in rates.items() if _is_error(name)},
        }
        down = sum(count for _, count in flaps)
        if config.port_flaps_per_day and down >= config.port_flaps_per_day:
            found.append(Finding("port_flaps", port.name, f"went down {down} times in 24 h", CABLE))
        for name, limit in config.port_errors_per_hour.items():
            if rates.get(name, 0.0) > limit:
                message = f"{name}: {rates[name]:.0f} an hour, limit {limit:g}"
                found.append(Finding("port_errors", port.name, message, CABLE))
        found += _at_ceiling(config, port)
    for gone in set(memory.ports) - {port.name for port in chosen}:
        del memory.ports[gone]
    return found


def _at_ceiling(config: Config, port: Port) -> list[Finding]:
    """Counters that are judged and can grow no more. InfiniBand's; others have wider ones."""
    return [
        Finding(
            "port_counters",
            port.name,
            f"{name} stands at its ceiling of {CEILINGS[name]} and counts no more",
            f"reset it: perfquery -C {port.device} -P {port.number} -R",
        )
        for name in ("link_downed", *config.port_errors_per_hour)
        if port.layer == "InfiniBand" and port.counters.get(name, 0) == CEILINGS.get(name)
    ]


def _grown(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {
        name: count - before[name] if count >= before[name] else count
        for name, count in now.items()
        if name in before
    }


def _is_error(name: str) -> bool:
    return name in CEILINGS or name in HARDWARE_ERRORS or name == CARRIER
