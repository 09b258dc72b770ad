"""The dashboard Kubernetes: API servers, etcd, scheduler, kubelets and CoreDNS."""

from __future__ import annotations

from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards import (
    Dashboard,
    Panel,
    graph,
    rate,
    stat,
)

RATE = "[$__rate_interval]"
HOST = "{{instance}}"


def slowest(metric: str, by: str, where: str = "") -> str:
    """The 99th percentile of a histogram by labels."""
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket{where}{RATE})))"


KUBERNETES = Dashboard(
    "kubernetes",
    "Kubernetes",
    "Control plane, etcd and kubelets of the cluster.",
    (
        (
            "Now",
            (
                stat("API servers", "short", 'sum(up{job="kube-apiserver"})', limits=(2, 1)),
                stat("Members of etcd", "short", 'sum(up{job="etcd"})', limits=(3, 2)),
                stat("Nodes", "short", "sum(node_collector_zone_size)"),
                stat(
                    "Nodes not ready",
                    "short",
                    "sum(node_collector_unhealthy_nodes_in_zone)",
                    limits=(1, 2),
                ),
                stat("Pods that wait", "short", "sum(scheduler_pending_pods)"),
                stat(
                    "Bad requests of 30 minutes",
                    "percentunit",
                    "gpufleet:api_bad:ratio30m",
                    about="They fail or are too slow: 1 s for one object, 30 s for a list. 1% is the budget.",
                    limits=(0.01, 0.06),
                ),
            ),
        ),
        (
            "API servers",
            (
                graph(
                    "Requests by verb",
                    "reqps",
                    (rate("apiserver_request_total", "verb"), "{{verb}}"),
                    stack=True,
                ),
                graph(
                    "Requests that fail, by resource",
                    "reqps",
                    (
                        "topk(10, " + rate('apiserver_request_total{code=~"5.."}', "verb, resource") + ")",
                        "{{verb}} {{resource}}",
                    ),
                ),
                graph(
                    "Latency of requests by verb (p99)",
                    "s",
                    (
                        slowest("apiserver_request_sli_duration_seconds", "verb", '{verb!~"WATCH|CONNECT"}'),
                        "{{verb}}",
                    ),
                ),
                graph(
                    "Requests in flight",
                    "short",
                    (
                        "sum by (instance, request_kind) (apiserver_current_inflight_requests)",
                        HOST + " {{request_kind}}",
                    ),
                ),
                Panel(
                    "Objects",
                    "table",
                    "short",
                    (("topk(15, max by (group, resource) (apiserver_resource_objects))", ""),),
                    columns=("resource", "group"),
                    value="objects",
                ),
                Panel(
                    "Certificates that end first",
                    "table",
                    "s",
                    (
                        (
                            "bottomk(15, gpufleet_kubernetes_certificate_expiry_timestamp_seconds - time())",
                            "",
                        ),
                    ),
                    columns=("instance", "certificate"),
                    value="left",
                ),
            ),
        ),
        (
            "etcd",
            (
                graph(
                    "Disk (fsync, p99)",
                    "s",
                    (slowest("etcd_disk_wal_fsync_duration_seconds", "instance"), HOST),
                ),
                graph(
                    "Commit (p99)",
                    "s",
                    (slowest("etcd_disk_backend_commit_duration_seconds", "instance"), HOST),
                ),
                graph(
                    "Round trip between members (p99)",
                    "s",
                    (
                        slowest("etcd_network_peer_round_trip_time_seconds", "instance, To"),
                        HOST + " to {{To}}",
                    ),
                ),
                graph(
                    "Database",
                    "bytes",
                    ("etcd_mvcc_db_total_size_in_bytes", f"{HOST} file"),
                    ("etcd_mvcc_db_total_size_in_use_in_bytes", f"{HOST} in use"),
                    ("max(etcd_server_quota_backend_bytes)", "quota"),
                ),
            ),
        ),
        (
            "Kubelets",
            (
                graph("Pods", "short", ("kubelet_running_pods", HOST)),
                graph(
                    "Time to list containers (p99)",
                    "s",
                    ("topk(10, " + slowest("kubelet_pleg_relist_duration_seconds", "instance") + ")", HOST),
                ),
                graph(
                    "Calls of the runtime that fail",
                    "ops",
                    (
                        "topk(10, "
                        + rate("kubelet_runtime_operations_errors_total", "instance, operation_type")
                        + ")",
                        HOST + " {{operation_type}}",
                    ),
                ),
                graph(
                    "CoreDNS by answer",
                    "reqps",
                    (rate("coredns_dns_responses_total", "rcode"), "{{rcode}}"),
                    stack=True,
                ),
                Panel(
                    "Nodes that the health check has drained",
                    "table",
                    "short",
                    (("gpufleet_health_drained == 1", ""),),
                    columns=("instance",),
                    value="drained",
                ),
            ),
        ),
    ),
)
