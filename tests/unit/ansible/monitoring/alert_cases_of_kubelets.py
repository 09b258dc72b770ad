"""Alerts of kubelets and what they run: series that fire them, and series of the same metrics that do not."""

from __future__ import annotations

from .alert_cases import Case
from .alert_cases_of_kubernetes import DGX, histogram, latency, series


def kubelet(value: str, host: str = "1+0x30") -> dict[str, str]:
    return series("up", value, job="kubelet", **DGX) | series("up", host, job="node", **DGX)


def runtime(errors: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, count in (("total", 100), ("errors_total", errors)):
        about = {**DGX, "job": "kubelet", "operation_type": "create_container"}
        found |= series(f"kubelet_runtime_operations_{name}", f"0+{count}x60", **about)
    return found


def ttl(client_days: float, server_days: float) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, days in (("client", client_days), ("server", server_days)):
        left = f"{days * 86400:.0f}+0x30" if days else "Inf+0x30"
        found |= series(f"kubelet_certificate_manager_{name}_ttl_seconds", left, **DGX)
    return found


def renewals(client: str, server: str) -> dict[str, str]:
    return series("kubelet_certificate_manager_client_expiration_renew_errors", client, **DGX) | series(
        "kubelet_server_expiration_renew_errors", server, **DGX
    )


def containers(container: str, started: str, scraped: str = "1+0x60", node: str = "dgx01") -> dict[str, str]:
    """A container of kube-system, as a kubelet lists it."""
    about = {"instance": node, "job": "kubelet-containers"}
    return series("up", scraped, **about) | series(
        "container_start_time_seconds",
        started,
        **about,
        namespace="kube-system",
        container=container,
        pod=f"{container}-x7k2p",
    )


def evictions(count: str, pods: str = "60+0x40") -> dict[str, str]:
    about = {**DGX, "job": "kubelet"}
    return series("kubelet_running_pods", pods, **about) | series(
        "kubelet_evictions", count, **about, eviction_signal="memory.available"
    )


LISTING = "kubelet_pleg_relist_duration_seconds"
CALLS = latency(
    "kubelet_runtime_operations_duration_seconds", "7.6", "19", **DGX, operation_type="run_podsandbox"
)
PULLS = latency(
    "kubelet_runtime_operations_duration_seconds", "7.6", "19", **DGX, operation_type="pull_image"
)
PLEG = "kubelet_pleg_last_seen_seconds"
EVICTIONS = {**DGX, "eviction_signal": "memory.available"}
EVICTED = "the kubelet of dgx01 evicts pods for memory.available"
PROXY = {"instance": "dgx01", "job": "kubelet-containers"}
CASES = (
    Case(
        "KubeletDown",
        "10m",
        kubelet("0+0x30"),
        kubelet("1+0x30"),
        DGX | {"job": "kubelet"},
        "the kubelet of dgx01 does not answer: its pods are evicted after five minutes",
        # The host is down.
        (kubelet("0+0x30", host="0+0x30"),),
    ),
    Case(
        "KubeletPodsNotListed",
        "10m",
        series(PLEG, "0+60x4 240+0x30", **DGX),
        series(PLEG, "0+60x30", **DGX),
        DGX,
        "the kubelet of dgx01 has not listed its containers for 6m 0s",
    ),
    Case(
        "KubeletPodListSlow",
        "15m",
        # Ten seconds are its highest limit.
        histogram(LISTING, {"5": "0+0x60", "10": "0+0x60"}, **DGX),
        histogram(LISTING, {"5": "0+0x60", "10": "0+60x60"}, **DGX),
        DGX,
        "the kubelet of dgx01 needs 10s to list its containers (p99)",
    ),
    Case(
        "KubeletRuntimeErrors",
        "20m",
        runtime(20),
        runtime(1),
        DGX,
        "20% of what the kubelet of dgx01 asks of containerd fails",
    ),
    Case(
        "KubeletRuntimeSlow",
        "20m",
        CALLS[0],
        CALLS[1],
        DGX,
        "containerd of dgx01 answers in 18.89s (p99)",
        (PULLS[0],),
    ),
    Case(
        "KubeletTooManyPods",
        "20m",
        {"gpufleet:kubernetes_pods": "110+0x30"} | series("kubelet_running_pods", "108+0x30", **DGX),
        {"gpufleet:kubernetes_pods": "110+0x30"} | series("kubelet_running_pods", "60+0x30", **DGX),
        DGX,
        "dgx01 runs 108 pods: it accepts few more",
    ),
    # The first eviction since the kubelet started, and a later one.
    Case("KubeletEvicts", "30m", evictions("_x20 1+0x20"), evictions("1+0x40"), EVICTIONS, EVICTED),
    Case(
        "KubeletEvicts",
        "30m",
        evictions("1+0x20 2+0x20"),
        evictions("2+0x40"),
        EVICTIONS,
        EVICTED,
        # Prometheus itself was away.
        (evictions("_x20 1+0x20", "_x20 60+0x20"),),
    ),
    Case(
        "KubeletCertificateExpires",
        "5m",
        ttl(200, 6),
        ttl(200, 300),
        DGX,
        "a certificate of the kubelet of dgx01 expires in 6d 0h 0m 0s",
        # A kubelet that does not rotate its serving certificate.
        (ttl(200, 0),),
    ),
    Case(
        "KubeletCertificateExpires",
        "5m",
        ttl(3, 300),
        ttl(8, 300),
        DGX,
        "a certificate of the kubelet of dgx01 expires in 3d 0h 0m 0s",
    ),
    Case(
        "KubeletCertificateRenewalFails",
        "30m",
        renewals("0+0x60", "0+1x60"),
        renewals("0+0x60", "3+0x60"),
        DGX,
        "the kubelet of dgx01 cannot renew a certificate",
    ),
    Case(
        "KubeProxyMissing",
        "20m",
        containers("kube-proxy", "1000 _x60"),
        containers("kube-proxy", "1000+0x60"),
        PROXY,
        "kube-proxy does not run on dgx01: its pods do not reach services",
        # What a kubelet that does not answer runs is unknown.
        (containers("kube-proxy", "_x60", scraped="0+0x60"),),
    ),
    Case(
        "KubeSystemContainerRestarts",
        "30m",
        containers("kube-proxy", "0+300x60"),
        containers("kube-proxy", "1000+0x60"),
        PROXY | {"namespace": "kube-system", "container": "kube-proxy", "pod": "kube-proxy-x7k2p"},
        "kube-proxy of pod kube-proxy-x7k2p on dgx01 restarted 30 times in half an hour",
    ),
    Case(
        "CoreDnsDown",
        "20m",
        containers("coredns", "1000 _x60", node="ctl01"),
        containers("coredns", "1000+0x60", node="ctl01"),
        {},
        "CoreDNS runs on no node: pods resolve no names",
        (containers("coredns", "_x60", scraped="0+0x60", node="ctl01"),),
    ),
)
