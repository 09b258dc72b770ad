"""Alerts of Kubernetes: series that fire them, and series of the same metrics that do not.

Names and labels are those of real programs: tests/kube/test_metrics.py looks for the names there.
"""

from __future__ import annotations

from .alert_cases import Case

MEMBERS = ("ctl01", "ctl02", "ctl03")
CTL = {"instance": "ctl01", "role": "controller"}
DGX = {"instance": "dgx01"}


def series(metric: str, values: str, **labels: str) -> dict[str, str]:
    """One series."""
    inside = ", ".join(f'{name}="{text}"' for name, text in labels.items())
    return {f"{metric}{{{inside}}}": values}


def up(job: str, *values: str) -> dict[str, str]:
    """Targets of a job on the members of a site with three, so many as there are values."""
    found = {"gpufleet:kubernetes_members": "3+0x60"}
    for member, value in zip(MEMBERS, values, strict=False):
        found |= series("up", value, job=job, instance=member, role="controller")
    return found


def histogram(metric: str, buckets: dict[str, str], **labels: str) -> dict[str, str]:
    """The buckets of a histogram, by upper limit."""
    found: dict[str, str] = {}
    for le, values in {**buckets, "+Inf": "0+60x60"}.items():
        found |= series(f"{metric}_bucket", values, **labels, le=le)
    return found


def latency(metric: str, low: str, high: str, **labels: str) -> tuple[dict[str, str], dict[str, str]]:
    """A histogram whose observations are all between `low` and `high` seconds, and one with all below."""
    slow = histogram(metric, {low: "0+0x60", high: "0+60x60"}, **labels)
    return slow, histogram(metric, {low: "0+60x60", high: "0+60x60"}, **labels)


def api(good: int, slow: int, failed: int, length: int = 60) -> dict[str, str]:
    """Requests to the API server: how many of each kind in a minute."""
    about = {
        "job": "kube-apiserver",
        "instance": "ctl01",
        "verb": "GET",
        "scope": "resource",
        "resource": "pods",
    }
    found: dict[str, str] = {}
    for code, count in (("200", good + slow), ("500", failed)):
        found |= series("apiserver_request_total", f"0+{count}x{length}", **about, code=code)
    every = good + slow + failed
    duration = "apiserver_request_sli_duration_seconds"
    found |= series(f"{duration}_count", f"0+{every}x{length}", **about)
    found |= series(f"{duration}_bucket", f"0+{good + failed}x{length}", **about, le="1")
    return found | series(f"{duration}_bucket", f"0+{every}x{length}", **about, le="30")


def clients(week: int, day: str = "0+60x60") -> dict[str, str]:
    """Requests with client certificates, of which so many a minute expire within a week."""
    name, about = "apiserver_client_certificate_expiration_seconds", {"job": "kube-apiserver"}
    return (
        series(f"{name}_bucket", f"0+{week}x60", **about, le="604800")
        | series(f"{name}_bucket", day, **about, le="+Inf")
        | series(f"{name}_count", day, **about)
    )


def certificate(days: int) -> dict[str, str]:
    """The certificate of an API server; time begins at 0 in tests."""
    labels = {**CTL, "certificate": "apiserver"}
    return series(
        "gpufleet_kubernetes_certificate_expiry_timestamp_seconds", f"{days * 86400}+0x30", **labels
    )


def leaders(job: str, *values: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for member, value in zip(MEMBERS, values, strict=False):
        found |= series("leader_election_master_status", value, job=job, instance=member, name=job)
    return found


def attempts(errors: int) -> dict[str, str]:
    """Attempts of the scheduler in a minute, of which some end with an error."""
    found = series("scheduler_schedule_attempts_total", "0+100x60", result="scheduled", **CTL)
    return found | series("scheduler_schedule_attempts_total", f"0+{errors}x60", result="error", **CTL)


def rest(failed: int, code: str) -> dict[str, str]:
    """Requests of a kubelet to the API server."""
    about = {**DGX, "job": "kubelet", "host": "10.0.0.10:6443", "method": "GET"}
    return series("rest_client_requests_total", "0+100x60", **about, code="200") | series(
        "rest_client_requests_total", f"0+{failed}x60", **about, code=code
    )


def nodes(unready: int) -> dict[str, str]:
    """Nodes by the controller manager that leads; there are no zones."""
    about = {**CTL, "job": "kube-controller-manager", "zone": ""}
    return series("node_collector_unhealthy_nodes_in_zone", f"{unready}+0x30", **about) | series(
        "node_collector_zone_size", "20+0x30", **about
    )


def dns(failed: int) -> dict[str, str]:
    about = {"job": "coredns", "instance": "kube-dns"}
    return series("coredns_dns_responses_total", "0+1000x60", **about, rcode="NOERROR") | series(
        "coredns_dns_responses_total", f"0+{failed}x60", **about, rcode="SERVFAIL"
    )


CASES = (
    Case(
        "KubeApiDown",
        "10m",
        up("kube-apiserver", "1 0+0x60", "1 0+0x60", "0+0x60"),
        up("kube-apiserver", "0+0x60", "0+0x60", "1+0x60"),
        {},
        "no API server answers: running pods continue, nothing is scheduled or replaced",
    ),
    # Prometheus scrapes no API server, although the site has some.
    Case(
        "KubeApiDown",
        "10m",
        up("kube-apiserver", "_x60"),
        up("kube-apiserver", "1+0x60"),
        {},
        "no API server answers: running pods continue, nothing is scheduled or replaced",
        # A site without Kubernetes.
        (series("up", "1+0x60", job="node"),),
    ),
    Case(
        "KubeApiServerDown",
        "10m",
        up("kube-apiserver", "0+0x60", "1+0x60"),
        up("kube-apiserver", "1+0x60", "1+0x60"),
        CTL | {"job": "kube-apiserver"},
        "the API server of ctl01 does not answer",
    ),
    Case(
        "KubeApiBudgetBurnsFast",
        "90m",
        api(70, 20, 10, 120),
        api(100, 0, 0, 120),
        {},
        "30% of the requests to the API server fail or are slow",
        # Slow for five minutes an hour ago.
        (api(98, 1, 1, 120),),
    ),
    Case(
        "KubeApiBudgetBurns",
        "28h",
        api(95, 3, 2, 1700),
        api(99, 1, 0, 1700),
        {},
        "5% of the requests to the API server failed or were slow in a day",
    ),
    Case(
        "KubeApiOverloaded",
        "30m",
        series("apiserver_request_total", "0+60x60")
        | series("apiserver_request_terminations_total", "0+18x60"),
        series("apiserver_request_total", "0+60x60")
        | series("apiserver_request_terminations_total", "0+6x60"),
        {},
        "the API servers refuse 30% of the requests to protect themselves",
    ),
    Case(
        "KubeAggregatedApiUnavailable",
        "30m",
        series("aggregator_unavailable_apiservice", "1+0x60", **CTL, name="v1beta1.metrics.k8s.io"),
        series("aggregator_unavailable_apiservice", "0 1 1 0+0x60", **CTL, name="v1beta1.metrics.k8s.io"),
        {"name": "v1beta1.metrics.k8s.io"},
        "the API v1beta1.metrics.k8s.io is not available",
    ),
    Case(
        "KubeClientCertificatesExpire",
        "30m",
        clients(6),
        clients(0),
        {},
        "10% of the requests come with a client certificate that expires within a week",
    ),
    Case(
        "KubeCertificateNotRenewed",
        "0m",
        certificate(29),
        certificate(90),
        {"instance": "ctl01", "certificate": "apiserver"},
        "the certificate apiserver of ctl01 expires in 29d 0h 0m 0s",
    ),
    Case(
        "KubeCertificateExpires",
        "0m",
        certificate(6),
        certificate(8),
        {"instance": "ctl01", "certificate": "apiserver"},
        "the certificate apiserver of ctl01 expires in 6d 0h 0m 0s",
    ),
    Case(
        "KubeControllerManagerDown",
        "10m",
        up("kube-controller-manager", "0+0x60", "0+0x60", "0+0x60"),
        up("kube-controller-manager", "0+0x60", "1+0x60", "0+0x60"),
        {},
        "no controller manager answers: failed pods and nodes are not replaced",
    ),
    Case(
        "KubeSchedulerDown",
        "10m",
        up("kube-scheduler", "_x60"),
        up("kube-scheduler", "1+0x60"),
        {},
        "no scheduler answers: new pods stay pending",
    ),
    Case(
        "KubeComponentDown",
        "20m",
        up("kube-scheduler", "0+0x60", "1+0x60"),
        up("kube-scheduler", "1+0x60", "1+0x60"),
        CTL | {"job": "kube-scheduler"},
        "kube-scheduler of ctl01 does not answer",
    ),
    Case(
        "KubeNoLeader",
        "10m",
        leaders("kube-scheduler", "0+0x60", "0+0x60"),
        leaders("kube-scheduler", "0+0x60", "1+0x60"),
        {"job": "kube-scheduler"},
        "no kube-scheduler leads: all are idle",
    ),
    Case(
        "KubeSchedulerErrors",
        "45m",
        attempts(25),
        attempts(1),
        {},
        "20% of the attempts to schedule a pod end with an error",
    ),
    Case(
        "KubeClientErrors",
        "30m",
        rest(25, "<error>"),
        rest(0, "<error>"),
        DGX | {"job": "kubelet"},
        "20% of the requests of kubelet on dgx01 to the API server fail",
        # An object that does not exist is no fault.
        (rest(25, "404"),),
    ),
    Case("KubeNodesNotReady", "15m", nodes(1), nodes(0), {}, "1 nodes are not ready"),
    Case("KubeManyNodesNotReady", "10m", nodes(5), nodes(2), {}, "25% of the nodes are not ready"),
    Case("CoreDnsErrors", "20m", dns(250), dns(10), {}, "CoreDNS answers 20% of the queries with SERVFAIL"),
    Case(
        "CoreDnsPanics",
        "10m",
        series("coredns_panics_total", "0+0x4 1+0x30", job="coredns", instance="kube-dns"),
        series("coredns_panics_total", "1+0x30", job="coredns", instance="kube-dns"),
        {"job": "coredns", "instance": "kube-dns"},
        "CoreDNS panicked",
    ),
)
