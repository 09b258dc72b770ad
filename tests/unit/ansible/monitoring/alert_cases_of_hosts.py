"""Alerts of hosts, Slurm, power and monitoring itself: series that fire them, and that do not."""

from __future__ import annotations

from .alert_cases import Case, mig, unit

DISK = '{instance="dgx01", mountpoint="/", fstype="ext4", device="/dev/sda1"}'
ROOT = {"instance": "dgx01", "mountpoint": "/", "fstype": "ext4", "device": "/dev/sda1"}


def disk(free: int, of: str = "avail_bytes", all_of: str = "size_bytes") -> dict[str, str]:
    """A disk of which so many percent are free."""
    return {f"node_filesystem_{of}{DISK}": f"{free}+0x30", f"node_filesystem_{all_of}{DISK}": "100+0x30"}


def host(metric: str, values: str) -> dict[str, str]:
    """A series of one host."""
    return {f'{metric}{{instance="dgx01"}}': values}


def controllers(first: int, second: int | None = None) -> dict[str, str]:
    """Controllers that answer or not."""
    found = {'slurm_controller_up{controller="ctl01"}': f"{first}+0x20"}
    if second is not None:
        found['slurm_controller_up{controller="ctl02"}'] = f"{second}+0x20"
    return found


def answers(ping: int) -> dict[str, str]:
    """What the exporter reports of Slurm's commands."""
    found = {"ping": ping, "nodes": 1, "jobs": 1, "scheduler": 1, "sacct": 1}
    return {
        f'slurm_exporter_source_up{{instance="ctl01", source="{name}"}}': f"{up}+0x20"
        for name, up in found.items()
    }


NODE_UP = 'up{job="node", instance="dgx01"}'


def racks(gpu_w: int, for_: str = "+0x40", instances: int = 0) -> dict[str, str]:
    """A rack of one node with eight GPUs, in which 20 kW may be drawn."""
    found = {"gpufleet:rack_capacity_watts": "20000+0x40", "gpufleet:node_base_watts": "4000+0x40"}
    for index in range(8):
        if instances:
            found |= mig("DCGM_FI_DEV_POWER_USAGE", f"{gpu_w}{for_}", index, instances, ', rack="r1"')
        else:
            found[f'DCGM_FI_DEV_POWER_USAGE{{instance="dgx01", gpu="{index}", rack="r1"}}'] = f"{gpu_w}{for_}"
    return found


NOT_SYNCHRONISED = {
    'node_timex_sync_status{instance="dgx01"}': "0+0x30",
    'node_timex_maxerror_seconds{instance="dgx01"}': "16+0x30",
}

HOST_CASES = (
    Case(
        "NodeDown",
        "4m",
        {'up{job="node", instance="dgx01"}': "0+0x10"},
        {'up{job="node", instance="dgx01"}': "1+0x10"},
        {"instance": "dgx01", "job": "node"},
        "dgx01 does not answer",
    ),
    Case("NodeDiskFull", "20m", disk(8), disk(12), ROOT, "/ of dgx01 has 8% left"),
    Case("NodeDiskAlmostFull", "10m", disk(2), disk(4), ROOT, "/ of dgx01 has 2% left"),
    Case(
        "NodeInodesFull",
        "20m",
        disk(4, "files_free", "files"),
        disk(6, "files_free", "files"),
        ROOT,
        "/ of dgx01 has 4% of its inodes left",
    ),
    Case(
        "NodeClockSkew",
        "15m",
        host("node_timex_offset_seconds", "-0.25+0x30"),
        host("node_timex_offset_seconds", "-0.04+0x30"),
        {"instance": "dgx01"},
        "the clock of dgx01 is off by 250ms",
    ),
    Case(
        "NodeClockNotSynchronised",
        "20m",
        NOT_SYNCHRONISED,
        NOT_SYNCHRONISED | {'node_timex_maxerror_seconds{instance="dgx01"}': "0.01+0x30"},
        {"instance": "dgx01"},
        "the clock of dgx01 is not synchronised",
    ),
    Case(
        "FilesystemMissing",
        "12m",
        {'gpufleet:mount_missing{instance="dgx01", mountpoint="/shared/home"}': "1+0x20"},
        {'gpufleet:mount_missing{instance="dgx01", mountpoint="/shared/home"}': "1+0x2 _x20"},
        {"instance": "dgx01", "mountpoint": "/shared/home"},
        "/shared/home is not mounted on dgx01",
    ),
    Case(
        "FilesystemStuck",
        "6m",
        {'node_filesystem_device_error{instance="dgx01", mountpoint="/home", fstype="nfs4"}': "1+0x10"},
        {'node_filesystem_device_error{instance="dgx01", mountpoint="/home", fstype="nfs4"}': "0+0x10"},
        {"instance": "dgx01", "mountpoint": "/home", "fstype": "nfs4"},
        "/home of dgx01 does not answer",
    ),
    Case(
        "NodeUnitFailed",
        "6m",
        unit("munge.service", "failed", "1+0x10"),
        unit("munge.service", "failed", "0+0x10"),
        {"instance": "ctl01", "name": "munge.service", "state": "failed"},
        "munge.service of ctl01 has failed",
    ),
    Case(
        "BackupTooOld",
        "27h",
        {'gpufleet_backup_last_success_timestamp_seconds{backup="slurm", instance="ctl01"}': "0+0x1700"},
        {'gpufleet_backup_last_success_timestamp_seconds{backup="slurm", instance="ctl01"}': "7200+0x1700"},
        {"backup": "slurm"},
        "the last good backup slurm is 1d 3h 0m 0s old",
    ),
    Case(
        "BackupMissing",
        "27h",
        unit("gpufleet-slurm-backup.timer", "active", "1+0x1700")
        | {'gpufleet_backup_last_success_timestamp_seconds{backup="etcd", instance="ctl01"}': "0+0x1700"},
        unit("gpufleet-slurm-backup.timer", "active", "1+0x1700")
        | {'gpufleet_backup_last_success_timestamp_seconds{backup="slurm", instance="ctl01"}': "0+0x1700"},
        {"backup": "slurm"},
        "there never was a good backup slurm",
    ),
    Case(
        "BackupCopyFailed",
        "27h",
        {'gpufleet_backup_failed{backup="etcd-remote", instance="ctl01"}': "1+0x1700"},
        {'gpufleet_backup_failed{backup="etcd-remote", instance="ctl01"}': "0+0x1700"},
        {"backup": "etcd-remote", "instance": "ctl01"},
        "backups etcd-remote of ctl01 are not copied to the remote target",
    ),
    Case(
        "TextfileUnreadable",
        "15m",
        host("node_textfile_scrape_error", "1+0x30"),
        host("node_textfile_scrape_error", "0+0x30"),
        {"instance": "dgx01"},
        "a *.prom file of dgx01 cannot be read",
    ),
)

DRAINED = 'slurm_node_unavailable_since_seconds{node="dgx02", state="drained", reason="fan", user="ada"}'
FREE = {
    'slurm_gpus{partition="gpu"}': "32+0x90",
    'slurm_gpus_unavailable{partition="gpu"}': "8+0x90",
    'slurm_gpus_allocated{partition="gpu"}': "8+0x90",
    'slurm_jobs_pending_gpus{partition="gpu"}': "16+0x90",
}
CYCLES = {"slurm_scheduler_cycle_mean_seconds": "9+0x30", "slurm_backfill_cycle_mean_seconds": "20+0x30"}

SLURM_CASES = (
    Case(
        "SlurmctldDown",
        "3m",
        controllers(0, 0),
        controllers(0, 1),
        {},
        "no Slurm controller answers: jobs cannot be submitted, running jobs continue",
    ),
    Case(
        "SlurmNoBackupController",
        "15m",
        controllers(0, 1),
        controllers(1, 1),
        {},
        "only one Slurm controller runs: it has no backup",
        (controllers(1),),
    ),
    # As the exporter reports a slurmctld that hangs: `scontrol ping` does not end, and names no controller.
    Case(
        "SlurmNotAnswering",
        "10m",
        answers(0),
        answers(1),
        {"source": "ping"},
        "Slurm does not answer the exporter's query ping",
    ),
    Case(
        "SlurmdbdDown",
        "6m",
        unit("slurmdbd.service", "active", "0+0x10"),
        unit("slurmdbd.service", "active", "1+0x10"),
        {"instance": "ctl01", "name": "slurmdbd.service", "state": "active"},
        "slurmdbd does not run on ctl01: what jobs use is kept by slurmctld, for a while",
    ),
    Case(
        "SlurmAccountingQueue",
        "20m",
        {"slurm_dbd_queue_size": "5000+0x30"},
        {"slurm_dbd_queue_size": "900+0x30"},
        {},
        "slurmctld keeps 5000 records that slurmdbd has not taken",
    ),
    Case(
        "SlurmExporterDown",
        "6m",
        {'up{job="slurm", instance="ctl01"}': "0+0x10"},
        {'up{job="slurm", instance="ctl01"}': "1+0x10"},
        {"instance": "ctl01", "job": "slurm"},
        "ctl01 exports no Slurm metrics",
    ),
    Case(
        "SlurmNodeDrainedLong",
        "25h",
        {DRAINED: "0+0x1600"},
        {DRAINED: "7200+0x1600"},
        {"node": "dgx02", "state": "drained", "reason": "fan", "user": "ada"},
        "dgx02 accepts no jobs since 1d 1h 0m 0s: fan",
    ),
    Case(
        "SlurmManyNodesUnavailable",
        "20m",
        {
            'slurm_nodes{partition="", state="down"}': "2+0x30",
            'slurm_nodes{partition="", state="idle"}': "8+0x30",
        },
        {
            'slurm_nodes{partition="", state="down"}': "1+0x30",
            'slurm_nodes{partition="", state="idle"}': "9+0x30",
        },
        {},
        "20% of the nodes take no jobs",
    ),
    Case(
        "SlurmQueueStarved",
        "1m",
        {'slurm_job_pending_age_seconds{partition="gpu"}': "180000+0x5"},
        {'slurm_job_pending_age_seconds{partition="gpu"}': "170000+0x5"},
        {"partition": "gpu"},
        "a job in gpu has waited 2d 2h 0m 0s",
    ),
    Case(
        "SlurmIdleWhileQueued",
        "70m",
        FREE,
        FREE | {'slurm_jobs_pending_gpus{partition="gpu"}': "0+0x90"},
        {"partition": "gpu"},
        "partition gpu has 16 free GPUs and jobs that wait",
        (FREE | {'slurm_gpus_allocated{partition="gpu"}': "24+0x90"},),
    ),
    Case(
        "SlurmSchedulerSlow",
        "20m",
        CYCLES,
        CYCLES | {"slurm_scheduler_cycle_mean_seconds": "1+0x30"},
        {},
        "a cycle of Slurm's scheduler takes 9s",
    ),
)

POWER_CASES = (
    Case(
        "RackPowerOverCapacity",
        "3m",
        racks(2200),
        racks(1900),
        {"rack": "r1"},
        "rack r1 may draw 21.6kW, more than its capacity",
        # Each of seven MIG instances has the power of its GPU.
        (racks(1900, instances=7),),
    ),
    # The exporter of a node died half an hour ago: its GPUs count as before. A node that is down does not.
    Case(
        "RackPowerOverCapacity",
        "40m",
        racks(2200, "+0x10 _x30") | {NODE_UP: "1+0x40"},
        racks(1900, "+0x10 _x30") | {NODE_UP: "1+0x40"},
        {"rack": "r1"},
        "rack r1 may draw 21.6kW, more than its capacity",
        (racks(2200, "+0x10 _x30") | {NODE_UP: "1+0x10 0+0x30"},),
    ),
    Case(
        "RackPowerNearCapacity",
        "20m",
        racks(1950),
        racks(1800),
        {"rack": "r1"},
        "rack r1 is at 98% of its power capacity",
    ),
)

FAILED_SENDS = 'alertmanager_notifications_failed_total{instance="ctl01", integration="slack"}'
DROPPED = 'prometheus_notifications_dropped_total{instance="ctl01"}'
FAILED_RULES = 'prometheus_rule_evaluation_failures_total{instance="ctl01", rule_group="gpufleet-gpu"}'
COMPACTIONS = 'prometheus_tsdb_compactions_failed_total{instance="ctl01"}'
CORRUPTIONS = 'prometheus_tsdb_wal_corruptions_total{instance="ctl01"}'
SEEN = 'prometheus_remote_storage_highest_timestamp_in_seconds{instance="ctl01"}'
SENT = 'prometheus_remote_storage_queue_highest_sent_timestamp_seconds{instance="ctl01", url="https://m.example.com"}'

MONITORING_CASES = (
    Case(
        "AlertmanagerDown",
        "6m",
        {'up{job="alertmanager", instance="ctl01"}': "0+0x10"},
        {'up{job="alertmanager", instance="ctl01"}': "1+0x10"},
        {"instance": "ctl01", "job": "alertmanager"},
        "Alertmanager does not answer: no alert is delivered",
    ),
    Case(
        "AlertmanagerNotificationsFailing",
        "30m",
        {FAILED_SENDS: "0+1x40"},
        {FAILED_SENDS: "7+0x40"},
        {"integration": "slack"},
        "Alertmanager cannot reach slack",
    ),
    Case(
        "PrometheusNotificationsDropped",
        "20m",
        {DROPPED: "0+1x40"},
        {DROPPED: "7+0x40"},
        {"instance": "ctl01"},
        "Prometheus dropped alerts",
    ),
    Case(
        "PrometheusRulesFailing",
        "20m",
        {FAILED_RULES: "0+1x40"},
        {FAILED_RULES: "7+0x40"},
        {"rule_group": "gpufleet-gpu"},
        "rules of gpufleet-gpu fail: their alerts never fire",
    ),
    Case(
        "PrometheusConfigNotLoaded",
        "6m",
        {'prometheus_config_last_reload_successful{instance="ctl01"}': "0+0x10"},
        {'prometheus_config_last_reload_successful{instance="ctl01"}': "1+0x10"},
        {"instance": "ctl01"},
        "Prometheus runs with an old configuration",
    ),
    Case(
        "PrometheusStorageFailing",
        "3h",
        {COMPACTIONS: "0+1x200", CORRUPTIONS: "0+0x200"},
        {COMPACTIONS: "3+0x200", CORRUPTIONS: "1+0x200"},
        {"instance": "ctl01"},
        "Prometheus cannot write its series",
    ),
    Case(
        "PrometheusRemoteWriteBehind",
        "30m",
        {SEEN: "1000+60x40", SENT: "700+60x40"},
        {SEEN: "1000+60x40", SENT: "990+60x40"},
        {"instance": "ctl01", "url": "https://m.example.com"},
        "what is sent to https://m.example.com is 5m 0s behind",
    ),
    Case(
        "PrometheusTargetsMissing",
        "15m",
        {"gpufleet:hosts_expected": "2+0x30", 'up{job="node", instance="dgx01"}': "1+0x30"},
        {"gpufleet:hosts_expected": "1+0x30", 'up{job="node", instance="dgx01"}': "1+0x30"},
        {},
        "Prometheus scrapes 1 hosts, fewer than the fleet file has",
    ),
)

CASES = HOST_CASES + SLURM_CASES + POWER_CASES + MONITORING_CASES
