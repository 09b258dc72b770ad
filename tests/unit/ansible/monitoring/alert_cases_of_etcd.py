"""Alerts of etcd: series that fire them, and series of the same metrics that do not."""

from __future__ import annotations

from .alert_cases import Case
from .alert_cases_of_kubernetes import CTL, latency, series, up

ETCD = CTL | {"job": "etcd"}
PEER = {"instance": "ctl01", "To": "8211f1d0f64f3269"}
QUOTA = 8 * 2**30
FSYNC = latency("etcd_disk_wal_fsync_duration_seconds", "0.256", "1.024", **ETCD)
COMMIT = latency("etcd_disk_backend_commit_duration_seconds", "0.128", "0.512", **ETCD)
TRIP = latency("etcd_network_peer_round_trip_time_seconds", "0.1024", "0.4096", **ETCD, To=PEER["To"])


def database(size: str, used: str = "", length: int = 60) -> dict[str, str]:
    """The database of a member and its quota, in bytes."""
    found = series("etcd_mvcc_db_total_size_in_bytes", size, **ETCD)
    found |= series("etcd_mvcc_db_total_size_in_use_in_bytes", used, **ETCD) if used else {}
    return found | series("etcd_server_quota_backend_bytes", f"{QUOTA}+0x{length}", **ETCD)


CASES = (
    Case(
        "EtcdMemberDown",
        "10m",
        up("etcd", "0+0x60", "1+0x60", "1+0x60"),
        up("etcd", "1+0x60", "1+0x60", "1+0x60"),
        ETCD,
        "etcd on ctl01 does not answer",
    ),
    Case(
        "EtcdNoSpareMember",
        "10m",
        up("etcd", "0+0x60", "1+0x60", "1+0x60"),
        up("etcd", "1+0x60", "1+0x60", "1+0x60"),
        {},
        "the next member of etcd that fails stops the cluster",
        # A site with one member never has a spare one.
        ({"gpufleet:kubernetes_members": "1+0x60"} | series("up", "1+0x60", **ETCD),),
    ),
    Case(
        "EtcdQuorumLost",
        "5m",
        up("etcd", "0+0x60", "0+0x60", "1+0x60"),
        up("etcd", "0+0x60", "1+0x60", "1+0x60"),
        {},
        "half of etcd's members or more do not answer: the API server can write nothing",
        # A site without Kubernetes.
        (series("up", "1+0x60", job="node"),),
    ),
    # Prometheus scrapes no member, although the site has some.
    Case(
        "EtcdQuorumLost",
        "5m",
        up("etcd", "_x60"),
        up("etcd", "1+0x60", "1+0x60", "1+0x60"),
        {},
        "half of etcd's members or more do not answer: the API server can write nothing",
    ),
    Case(
        "EtcdNoLeader",
        "5m",
        series("etcd_server_has_leader", "0+0x30", **ETCD),
        series("etcd_server_has_leader", "1 0 1+0x30", **ETCD),
        ETCD,
        "etcd on ctl01 has no leader",
    ),
    Case(
        "EtcdLeaderChanges",
        "30m",
        series("etcd_server_leader_changes_seen_total", "1+1x60", **ETCD),
        series("etcd_server_leader_changes_seen_total", "7+0x60", **ETCD),
        {},
        "etcd's leader changed 15 times in 15 minutes",
        # A member that restarts counts from the beginning.
        (series("etcd_server_leader_changes_seen_total", "7+0x20 1+0x40", **ETCD),),
    ),
    Case(
        "EtcdProposalsFailing",
        "30m",
        series("etcd_server_proposals_failed_total", "0+2x60", **ETCD),
        series("etcd_server_proposals_failed_total", "40+0x60", **ETCD),
        ETCD,
        "30 writes to etcd failed on ctl01 in 15 minutes",
    ),
    Case(
        "EtcdFsyncSlow",
        "20m",
        FSYNC[0],
        FSYNC[1],
        {"instance": "ctl01"},
        "etcd on ctl01 waits 1.016s for its disk (fsync, p99)",
    ),
    Case(
        "EtcdCommitSlow",
        "20m",
        COMMIT[0],
        COMMIT[1],
        {"instance": "ctl01"},
        "etcd on ctl01 takes 508.2ms for a commit (p99)",
    ),
    Case(
        "EtcdPeerSlow",
        "20m",
        TRIP[0],
        TRIP[1],
        PEER,
        "a round trip from etcd on ctl01 to member 8211f1d0f64f3269 takes 406.5ms (p99)",
    ),
    Case(
        "EtcdPeerUnreachable",
        "15m",
        series("etcd_network_peer_sent_failures_total", "0+6x60", **ETCD, To=PEER["To"]),
        series("etcd_network_peer_sent_failures_total", "90+0x60", **ETCD, To=PEER["To"]),
        PEER,
        "etcd on ctl01 cannot send to member 8211f1d0f64f3269",
    ),
    Case(
        "EtcdQuotaNearlyUsed",
        "20m",
        database(f"{0.9 * QUOTA:.0f}+0x60"),
        database(f"{0.5 * QUOTA:.0f}+0x60"),
        ETCD,
        "the database of etcd on ctl01 has 90% of its quota; at 100% the cluster becomes read-only",
    ),
    Case(
        "EtcdGrowsFast",
        "5h",
        database(f"0+{QUOTA // 400}x300", length=300),
        database(f"0+{QUOTA // 4000}x300", length=300),
        ETCD,
        "the database of etcd on ctl01 reaches its quota within four hours",
    ),
    Case(
        "EtcdFragmented",
        "2h",
        database(f"{2**30}+0x130", f"{2**28}+0x130", 130),
        database(f"{2**30}+0x130", f"{2**29 + 1}+0x130", 130),
        ETCD,
        "only 25% of the database of etcd on ctl01 is in use",
        # A small one is not worth it.
        (database(f"{2**27}+0x130", f"{2**25}+0x130", 130),),
    ),
)
