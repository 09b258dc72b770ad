"""The dashboards Jobs, Cost and Power."""

from __future__ import annotations

from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards import (
    Dashboard,
    Panel,
    graph,
    rate,
    stat,
)

GPU = "{{instance}} GPU {{gpu}}"

JOBS = Dashboard(
    "jobs",
    "Jobs",
    "Slurm: who holds GPUs, who waits, and how the scheduler does.",
    (
        (
            "Now",
            (
                stat("Running", "short", 'sum(slurm_jobs{state="running"}) or vector(0)', width=6),
                stat("Waiting", "short", 'sum(slurm_jobs{state="pending"}) or vector(0)', width=6),
                stat(
                    "Longest wait for a turn",
                    "s",
                    "max(slurm_job_pending_age_seconds) or vector(0)",
                    limits=(86400, 172800),
                    width=6,
                ),
                stat("Controllers that answer", "short", "sum(slurm_controller_up)", limits=(2, 1), width=6),
            ),
        ),
        (
            "GPUs",
            (
                graph(
                    "GPUs of the cluster",
                    "short",
                    ('sum(slurm_gpus_allocated{partition=""})', "held by jobs"),
                    (
                        'sum(slurm_gpus{partition=""} - slurm_gpus_allocated - slurm_gpus_unavailable)',
                        "free",
                    ),
                    ('sum(slurm_gpus_unavailable{partition=""})', "on nodes that take no jobs"),
                    stack=True,
                ),
                graph(
                    "GPUs by account", "short", ("slurm_account_gpus_allocated", "{{account}}"), stack=True
                ),
                Panel(
                    "Share of its GPUs that an account holds",
                    "bargauge",
                    "percentunit",
                    (
                        (
                            "slurm_account_gpus_allocated / on (account) group_left () gpufleet:account_gpus",
                            "{{account}}",
                        ),
                    ),
                ),
                graph(
                    "GPUs by partition",
                    "percentunit",
                    ('slurm_gpus_allocated{partition!=""} / (slurm_gpus > 0)', "{{partition}}"),
                ),
            ),
        ),
        (
            "Queue",
            (
                graph("Jobs by state", "short", ("sum by (state) (slurm_jobs)", "{{state}}"), stack=True),
                graph(
                    "Why jobs wait",
                    "short",
                    ("sum by (reason) (slurm_jobs_pending)", "{{reason}}"),
                    stack=True,
                ),
                graph("Longest wait for a turn", "s", ("slurm_job_pending_age_seconds", "{{partition}}")),
                graph(
                    "GPUs that waiting jobs ask for", "short", ("slurm_jobs_pending_gpus", "{{partition}}")
                ),
            ),
        ),
        (
            "Outcome and scheduler",
            (
                graph(
                    "Jobs that ended in the last hour",
                    "short",
                    ("sum by (state) (slurm_jobs_ended)", "{{state}}"),
                    stack=True,
                ),
                graph(
                    "Mean cycle",
                    "s",
                    ("slurm_scheduler_cycle_mean_seconds", "main"),
                    ("slurm_backfill_cycle_mean_seconds", "backfill"),
                ),
                graph(
                    "Jobs started by backfill, an hour",
                    "short",
                    ("increase(slurm_backfill_jobs_total[1h])", "jobs"),
                ),
                graph(
                    "Messages that wait",
                    "short",
                    ("slurm_dbd_queue_size", "for slurmdbd"),
                    ("slurm_agent_queue_size", "for nodes"),
                ),
            ),
        ),
    ),
)

COST = Dashboard(
    "cost",
    "Cost",
    "Energy at the site's price, and nodes over their lifetime where the fleet file has it.",
    (
        (
            "Now, in USD an hour",
            (
                stat("Energy", "currencyUSD", "gpufleet:energy_cost_per_hour", width=6),
                stat("Nodes", "currencyUSD", "gpufleet:ownership_cost_per_hour", width=6),
                stat("One GPU", "currencyUSD", "gpufleet:gpu_cost_per_hour", width=6),
                stat(
                    "GPUs that are held and idle",
                    "currencyUSD",
                    "sum(gpufleet:gpus_held_idle:count) * scalar(gpufleet:gpu_cost_per_hour)",
                    about="Held by jobs, and less than 5% busy over an hour.",
                    width=6,
                ),
            ),
        ),
        (
            "In time",
            (
                graph(
                    "USD an hour",
                    "currencyUSD",
                    ("gpufleet:energy_cost_per_hour", "energy"),
                    ("gpufleet:ownership_cost_per_hour", "nodes"),
                    stack=True,
                ),
                graph(
                    "USD an hour by account",
                    "currencyUSD",
                    ("slurm_account_gpus_allocated * scalar(gpufleet:gpu_cost_per_hour)", "{{account}}"),
                    stack=True,
                ),
                graph(
                    "USD per hour of unused capacity",
                    "currencyUSD",
                    (
                        "sum(gpufleet:gpus_held_idle:count) * scalar(gpufleet:gpu_cost_per_hour)",
                        "held and idle",
                    ),
                    (
                        (
                            'sum(slurm_gpus{partition=""} - slurm_gpus_allocated - slurm_gpus_unavailable) * '
                            "scalar(gpufleet:gpu_cost_per_hour)"
                        ),
                        "free",
                    ),
                    (
                        'sum(slurm_gpus_unavailable{partition=""}) * scalar(gpufleet:gpu_cost_per_hour)',
                        "on nodes that take no jobs",
                    ),
                    stack=True,
                ),
                graph(
                    "USD for an hour of a busy GPU",
                    "currencyUSD",
                    (
                        (
                            "sum(gpufleet:gpu_cost_per_hour) * sum(gpufleet:gpus_seen:count) / "
                            "scalar(gpufleet:gpus_busy:count)"
                        ),
                        "all cost over busy GPUs",
                    ),
                ),
            ),
        ),
        (
            "Use",
            (
                graph(
                    "GPUs",
                    "short",
                    ('sum(slurm_gpus_allocated{partition=""})', "held"),
                    ("gpufleet:gpus_busy:count", "busy over an hour"),
                    ("sum(gpufleet:gpus_seen:count)", "there"),
                ),
                Panel(
                    "GPUs that were idle over an hour, by node",
                    "bargauge",
                    "short",
                    (("topk(20, count by (instance) (gpufleet:gpu_busy:avg1h < 5))", "{{instance}}"),),
                ),
            ),
        ),
    ),
)

POWER = Dashboard(
    "power",
    "Power",
    "GPUs as DCGM measures them; the rest of a node at its most, unless nothing is known of it.",
    (
        (
            "Now",
            (
                stat("All nodes", "watt", "sum(gpufleet:node_watts:sum)", width=6),
                stat(
                    "With the hall (PUE)",
                    "watt",
                    "sum(gpufleet:node_watts:sum) * scalar(gpufleet:pue)",
                    width=6,
                ),
                stat("GPUs", "watt", "sum(gpufleet:gpu_watts)", width=6),
                stat(
                    "Fullest rack",
                    "percentunit",
                    "max(gpufleet:rack_watts:sum) / scalar(gpufleet:rack_capacity_watts)",
                    limits=(0.9, 1.0),
                    width=6,
                ),
            ),
        ),
        (
            "Racks and nodes",
            (
                graph(
                    "Racks",
                    "watt",
                    ("gpufleet:rack_watts:sum", "{{rack}}"),
                    ("gpufleet:rack_capacity_watts", "capacity of one"),
                ),
                graph("Nodes", "watt", ("gpufleet:node_watts:sum", "{{instance}}")),
                Panel(
                    "GPUs that draw most",
                    "bargauge",
                    "watt",
                    (("topk(16, gpufleet:gpu_watts)", GPU),),
                ),
                graph(
                    "Energy of GPUs by node, a day at this rate",
                    "kwatth",
                    (
                        "sum by (instance) ("
                        + rate("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "instance, gpu", "max")
                        + ") / 1000 * 24 / 1000",
                        "{{instance}}",
                    ),
                    about="DCGM counts mJ: mJ/s are mW.",
                ),
            ),
        ),
        (
            "Slowed",
            (
                graph(
                    "Share of the time that a node's GPUs are slowed by their power limit",
                    "percentunit",
                    (rate("DCGM_FI_DEV_POWER_VIOLATION", "instance", "max") + " / 1e9", "{{instance}}"),
                ),
                graph(
                    "Share of the time that a node's GPUs are slowed by heat",
                    "percentunit",
                    (rate("DCGM_FI_DEV_THERMAL_VIOLATION", "instance", "max") + " / 1e9", "{{instance}}"),
                ),
            ),
        ),
    ),
)
