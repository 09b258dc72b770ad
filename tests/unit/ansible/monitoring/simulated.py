"""Series of a rack's exporters: four nodes and Slurm; in OpenMetrics for promtool."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

NODES = tuple(f"dgx{number:02d}" for number in range(1, 5))
HOSTS = (*NODES, "ctl01", "ctl02", "login01")
# The last node has MIG instances: each repeats the figures of its GPU.
INSTANCES = tuple({"GPU_I_ID": number, "GPU_I_PROFILE": "3g.40gb"} for number in ("1", "2"))
STEP_S = 60
Value = Callable[[float], float]


def openmetrics(now: float, hours: float) -> str:
    """All series of the last hours before `now` (seconds since 1970)."""
    times = [now - age * STEP_S for age in range(int(hours * 3600 / STEP_S), -1, -1)]
    lines = []
    for name, labels, value in series(times[0], now):
        inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
        reported = [(time, value(time)) for time in times]
        lines += [
            f"{name}{{{inside}}} {shown:.6g} {time:.0f}" for time, shown in reported if not math.isnan(shown)
        ]
    return "\n".join(lines) + "\n# EOF\n"


def wave(mean: float, swing: float, phase: float, noise: float = 0.02) -> Value:
    """A wave over some hours, never below 0."""
    chance = random.Random(f"{mean} {swing} {phase}")

    def value(time: float) -> float:
        shaken = chance.uniform(1 - noise, 1 + noise)
        return max(0.0, mean + swing * math.sin(time / 3600 * 1.7 + phase)) * shaken

    return value


def grows(rate: float, start: float) -> Value:
    """A counter that grows by so much in a second."""
    return lambda time: (time - start) * rate


def at(value: float) -> Value:
    """A constant."""
    return lambda _: value


def later(moment: float, before: float, after: float) -> Value:
    """One value, and another from a time on."""
    return lambda time: after if time >= moment else before


def between(first: float, last: float) -> Value:
    """1 during an interval, otherwise 0."""
    return lambda time: 1.0 if first <= time <= last else math.nan


def series(start: float, now: float) -> Iterator[tuple[str, dict[str, str], Value]]:
    """(name, labels, value at a time), families together."""
    for host in HOSTS:
        role = "gpu" if host in NODES else "controller" if host.startswith("ctl") else "login"
        yield "up", {"job": "node", "instance": host, "role": role}, at(1)
    for node in NODES:
        yield "up", {"job": "dcgm", "instance": node, "role": "gpu", "rack": rack(node)}, at(1)
    yield from gpus(start, now)
    yield from hosts(start)
    yield from ports(start, now)
    yield from slurm(start, now)
    yield from kubernetes(start)
    # A resolved alert; active ones come from the rules.
    span = now - start
    labels = {"alertname": "NodeDown", "alertstate": "firing", "instance": "dgx03", "severity": "critical"}
    yield "ALERTS", labels, between(start + 0.5 * span, start + 0.7 * span)


def rack(node: str) -> str:
    """Two nodes a rack."""
    return "r1" if node in NODES[:2] else "r2"


def gpus(start: float, now: float) -> Iterator[tuple[str, dict[str, str], Value]]:
    """Series of DCGM. The last node's GPUs idle; one GPU has an Xid and rising memory errors."""
    busy = {node: 88 - 12 * index for index, node in enumerate(NODES[:3])}
    quarter = now - 0.25 * (now - start)
    figures: dict[str, Callable[[str, int], Value]] = {
        "DCGM_FI_DEV_GPU_UTIL": lambda n, i: wave(busy.get(n, 0), 10 if n in busy else 0, i * 0.2),
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda n, i: wave(busy.get(n, 0) / 100, 0.1 if n in busy else 0, i),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda n, i: wave(busy.get(n, 0) / 180, 0.05, i * 0.2),
        "DCGM_FI_DEV_FB_USED": lambda n, i: wave(64_000 if n in busy else 600, 3000 if n in busy else 0, i),
        "DCGM_FI_DEV_FB_FREE": lambda n, i: at(16_000 if n in busy else 80_000),
        "DCGM_FI_DEV_GPU_TEMP": lambda n, i: wave(62 + i if n in busy else 31, 4, i * 0.3),
        "DCGM_FI_DEV_MEMORY_TEMP": lambda n, i: wave(70 + i if n in busy else 36, 4, i * 0.3),
        "DCGM_FI_DEV_POWER_USAGE": lambda n, i: wave(
            560 if n in busy else 75, 70 if n in busy else 2, i * 0.2
        ),
        "DCGM_FI_DEV_SM_CLOCK": lambda n, i: wave(1755 if n in busy else 345, 60, i),
        "DCGM_FI_PROF_NVLINK_TX_BYTES": lambda n, i: wave(9e10 if n in busy else 0, 2e10, i * 0.2),
        "DCGM_FI_PROF_NVLINK_RX_BYTES": lambda n, i: wave(9e10 if n in busy else 0, 2e10, i * 0.2 + 0.1),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda n, i: grows(560e3 if n in busy else 75e3, start),
        "DCGM_FI_DEV_POWER_VIOLATION": lambda n, i: grows(2e8 if n in busy and i < 3 else 0, start),
        "DCGM_FI_DEV_THERMAL_VIOLATION": lambda n, i: grows(4e7 if n == "dgx02" and i == 7 else 0, start),
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": lambda n, i: grows(0.002 if (n, i) == ("dgx02", 5) else 0, start),
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda n, i: later(quarter, 0, 1 if (n, i) == ("dgx02", 5) else 0),
    }
    for name, value in figures.items():
        for node in NODES:
            for index in range(8):
                labels = {
                    "instance": node,
                    "gpu": str(index),
                    "job": "dcgm",
                    "role": "gpu",
                    "rack": rack(node),
                }
                for more in INSTANCES if node == NODES[-1] else ({},):
                    yield name, labels | more, value(node, index)
    labels = {"instance": "dgx02", "gpu": "5", "job": "dcgm", "role": "gpu", "rack": rack("dgx02")}
    yield "DCGM_EXP_XID_ERRORS_COUNT", labels | {"xid": "48"}, later(quarter, math.nan, 1)


def hosts(start: float) -> Iterator[tuple[str, dict[str, str], Value]]:
    """Series of the node exporter, including the health check."""
    for phase, host in enumerate(HOSTS):
        here = {"instance": host, "job": "node"}
        idle = here | {"mode": "idle", "cpu": "0"}
        yield "node_cpu_seconds_total", idle, grows(0.35 + 0.08 * phase, start)
    for phase, host in enumerate(HOSTS):
        yield "node_memory_MemAvailable_bytes", {"instance": host, "job": "node"}, wave(1.2e12, 2e11, phase)
    for host in HOSTS:
        yield "node_memory_MemTotal_bytes", {"instance": host, "job": "node"}, at(2.1e12)
    for name, most in (("avail", 0.6), ("size", 1.0)):
        for phase, host in enumerate(HOSTS):
            for mount in ("/", "/raid"):
                labels = {"instance": host, "job": "node", "mountpoint": mount, "fstype": "ext4"}
                value = at(2e12) if name == "size" else wave(2e12 * most, 1e11, phase + len(mount))
                yield f"node_filesystem_{name}_bytes", labels, value
    for phase, host in enumerate(HOSTS):
        offset = wave(3e-5, 2e-5, phase, 0.5)
        yield "node_timex_offset_seconds", {"instance": host, "job": "node"}, offset
    for name in ("receive", "transmit"):
        for phase, host in enumerate(HOSTS):
            labels = {"instance": host, "job": "node", "device": "eth0"}
            yield f"node_network_{name}_bytes_total", labels, grows(2e8 + 3e7 * phase, start)
    units = (("gpufleet-opensm.service", "active", "ctl01"), ("gpufleet-opensm.service", "active", "ctl02"))
    for unit, state, host in (*units, ("nvidia-dcgm.service", "failed", "dgx04")):
        labels = {"instance": host, "job": "node", "name": unit, "state": state}
        yield "node_systemd_unit_state", labels, at(1)
    labels = {"instance": "dgx02", "job": "node", "check": "ecc", "action": "drain"}
    yield "gpufleet_health_findings", labels, at(1)


def ports(start: float, now: float) -> Iterator[tuple[str, dict[str, str], Value]]:
    """Eight adapters per node; one port goes down, one comes up at half its rate, one has errors."""
    late = now - 0.2 * (now - start)
    down, slow, bad = ("dgx03", 2), ("dgx01", 6), ("dgx02", 4)
    figures: dict[str, Callable[[tuple[str, int]], Value]] = {
        "state_id": lambda p: later(late, 4, 1) if p == down else at(4),
        "rate_bytes_per_second": lambda p: later(late, 5e10, 2.5e10) if p == slow else at(5e10),
        "port_data_received_bytes_total": lambda p: grows(2e10 - 1e9 * p[1] - 3e9 * int(p[0][-1]), start),
        "port_data_transmitted_bytes_total": lambda p: grows(2e10 - 1e9 * p[1] - 3e9 * int(p[0][-1]), start),
        "port_transmit_wait_total": lambda p: grows(900 * (p[1] + 1), start),
        "symbol_error_total": lambda p: grows(0.01 if p == bad else 0, start),
        "port_errors_received_total": lambda p: grows(0.004 if p == bad else 0, start),
        "local_link_integrity_errors_total": lambda p: at(0),
        "link_error_recovery_total": lambda p: grows(0.001 if p == bad else 0, start),
        "link_downed_total": lambda p: later(late, 0, 1) if p == down else at(0),
    }
    for name, value in figures.items():
        for node in NODES:
            for index in range(8):
                labels = {
                    "instance": node,
                    "device": f"mlx5_{index}",
                    "port": "1",
                    "job": "node",
                    "role": "gpu",
                }
                yield f"node_infiniband_{name}", labels, value((node, index))


def slurm(start: float, now: float) -> Iterator[tuple[str, dict[str, str], Value]]:
    """Series of the Slurm exporter: 24 of 32 GPUs are allocated, one node is drained."""
    here = {"instance": "ctl02", "job": "slurm"}
    for host, role in (("ctl01", "primary"), ("ctl02", "backup")):
        yield "slurm_controller_up", here | {"controller": host, "role": role}, at(1)
    for name, values in {"slurm_gpus": 32, "slurm_gpus_allocated": 24, "slurm_gpus_unavailable": 8}.items():
        for partition in ("", "gpu"):
            yield name, here | ({"partition": partition} if partition else {}), at(values)
    for state, count in (("allocated", 3), ("drained", 1)):
        yield "slurm_nodes", here | {"state": state}, at(count)
    why = {
        "node": "dgx04",
        "state": "drained",
        "reason": "gpufleet: 1 uncorrectable ECC error",
        "user": "root",
    }
    yield "slurm_node_unavailable_since_seconds", here | why, at(now - 7200)
    for account, held in (("research", 16), ("serving", 8)):
        yield "slurm_account_gpus_allocated", here | {"account": account}, wave(held, 0, 0, 0)
    for account, state, count in (
        ("research", "running", 2),
        ("research", "pending", 5),
        ("serving", "running", 1),
    ):
        labels = here | {"partition": "gpu", "account": account, "state": state}
        yield "slurm_jobs", labels, wave(count, count / 4, count, 0)
    for reason, count in (("Resources", 1), ("Priority", 3), ("QOSMaxGRESPerUser", 1)):
        yield "slurm_jobs_pending", here | {"partition": "gpu", "reason": reason}, at(count)
    yield "slurm_jobs_pending_gpus", here | {"partition": "gpu"}, wave(32, 12, 1, 0)
    yield "slurm_job_pending_age_seconds", here | {"partition": "gpu"}, grows(1, start)
    for state, count in (("completed", 9), ("failed", 2), ("timeout", 1)):
        labels = here | {"account": "research", "state": state}
        yield "slurm_jobs_ended", labels, wave(count, count / 3, count)
    yield "slurm_scheduler_cycle_mean_seconds", here, wave(0.012, 0.004, 1)
    yield "slurm_backfill_cycle_mean_seconds", here, wave(0.4, 0.1, 2)
    yield "slurm_backfill_jobs_total", here, grows(0.002, start)
    yield "slurm_dbd_queue_size", here, wave(3, 3, 1)
    yield "slurm_agent_queue_size", here, wave(1, 1, 2)


def kubernetes(start: float) -> Iterator[tuple[str, dict[str, str], Value]]:
    """Series of a small cluster beside Slurm: a member of the control plane, and a kubelet."""
    member = {"instance": "ctl01", "role": "controller"}
    for job in ("kube-apiserver", "etcd"):
        yield "up", member | {"job": job}, at(1)
    api = member | {"job": "kube-apiserver"}
    request = api | {"verb": "GET", "resource": "pods", "scope": "resource"}
    yield "apiserver_request_total", request | {"code": "200"}, grows(40, start)
    yield "apiserver_request_total", request | {"code": "500"}, grows(0.1, start)
    duration = "apiserver_request_sli_duration_seconds"
    for le, share in (("1", 39.9), ("30", 40.0), ("+Inf", 40.1)):
        yield f"{duration}_bucket", request | {"le": le}, grows(share, start)
    yield f"{duration}_count", request, grows(40.1, start)
    yield "apiserver_current_inflight_requests", api | {"request_kind": "readOnly"}, wave(12, 4, 0)
    yield "apiserver_resource_objects", api | {"group": "batch", "resource": "jobs"}, at(640)
    about = member | {"job": "node", "certificate": "apiserver"}
    yield "gpufleet_kubernetes_certificate_expiry_timestamp_seconds", about, at(start + 200 * 86400)
    controllers = member | {"job": "kube-controller-manager", "zone": ""}
    yield "node_collector_zone_size", controllers, at(7)
    yield "node_collector_unhealthy_nodes_in_zone", controllers, at(0)
    yield "scheduler_pending_pods", member | {"job": "kube-scheduler", "queue": "unschedulable"}, at(3)
    etcd, peer = member | {"job": "etcd"}, {"To": "8211f1d0f64f3269"}
    for name, more in (
        ("etcd_disk_wal_fsync_duration_seconds", {}),
        ("etcd_disk_backend_commit_duration_seconds", {}),
        ("etcd_network_peer_round_trip_time_seconds", peer),
    ):
        for le, rate in (("0.004", 20.0), ("0.008", 24.0), ("+Inf", 25.0)):
            yield f"{name}_bucket", etcd | more | {"le": le}, grows(rate, start)
    yield "etcd_mvcc_db_total_size_in_bytes", etcd, at(4e8)
    yield "etcd_mvcc_db_total_size_in_use_in_bytes", etcd, at(3e8)
    yield "etcd_server_quota_backend_bytes", etcd, at(2**33)
    kubelet = {"instance": "dgx01", "role": "gpu", "job": "kubelet"}
    yield "kubelet_running_pods", kubelet, wave(24, 6, 0)
    for le, rate in (("0.25", 0.9), ("0.5", 1.0), ("+Inf", 1.0)):
        yield "kubelet_pleg_relist_duration_seconds_bucket", kubelet | {"le": le}, grows(rate, start)
    about = kubelet | {"operation_type": "image_status"}
    yield "kubelet_runtime_operations_errors_total", about, grows(0.01, start)
    for code, rate in (("NOERROR", 90.0), ("NXDOMAIN", 20.0)):
        yield (
            "coredns_dns_responses_total",
            {"instance": "kube-dns", "job": "coredns", "rcode": code},
            grows(rate, start),
        )
    yield "gpufleet_health_drained", {"instance": "dgx03", "job": "node", "role": "gpu"}, at(1)
