"""Monitoring of rack sites: host, interval, retention, and receivers of alerts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import timedelta

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.plan.rack_monitoring import monitoring_host
from gpufleet.spec.models import Monitoring, OnPremSite


def _sites(fleet: Fleet) -> Iterator[tuple[SpecPath, OnPremSite, Monitoring]]:
    for path, site in fleet.onprem():
        if site.monitoring is not None:
            yield (*path, "monitoring"), site, site.monitoring


@check("monitoring-host", "controllers", "login")
def host_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """Prometheus runs on a controller or login host. On a GPU node it would compete with jobs and fail with
    the node."""
    for path, site, declared in _sites(fleet):
        hosts = [host for part in (site.controllers, site.login) if part is not None for host in part.hosts]
        if not hosts:
            yield FieldFinding(
                path,
                f"site {site.site!r} has no controller or login host to run Prometheus",
                "declare `controllers` or `login`",
                value=site.site,
            )
        elif declared.host is not None and declared.host not in hosts:
            yield FieldFinding(
                (*path, "host"),
                f"{declared.host!r} is not a controller or login host of site {site.site!r}",
                did_you_mean(nearest(declared.host, hosts), f"use one of {listed(hosts)}"),
            )


@check("monitoring-times")
def times_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """Intervals near Prometheus' lookback of 5 minutes cause gaps. Below 5 s, DCGM has no new values and
    measuring loads the nodes (the bounds are gpufleet's own)."""
    for path, _, declared in _sites(fleet):
        if not timedelta(seconds=5) <= declared.interval.delta <= timedelta(minutes=2):
            yield FieldFinding(
                (*path, "interval"),
                f"alerts and graphs do not support an interval of {declared.interval}",
                "write 5 s to 2 min",
            )
        if declared.retention.delta < timedelta(days=1):
            yield FieldFinding(
                (*path, "retention"),
                f"a retention of {declared.retention} is too short to analyse a fault of the last day",
                "write 1 d or more",
            )


@check("monitoring-racks")
def racks_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """The alert on a rack's power needs its capacity, `power.per_rack`."""
    for path, site, _ in _sites(fleet):
        if site.racks and site.power is None:
            yield FieldFinding(
                (*path[:-1], "racks"),
                f"racks of site {site.site!r} have no power capacity: no alert is sent when a rack draws"
                " too much",
                "declare `power` with `per_rack`",
                "warning",
                site.site,
            )


@check("monitoring-networks")
def networks_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """`open_to` lists networks and needs Grafana."""
    for path, site, declared in _sites(fleet):
        for index, network in enumerate(declared.open_to):
            try:
                ipaddress.ip_network(network)
            except ValueError:
                yield FieldFinding(
                    (*path, "open_to", index),
                    f"{network!r} is not a network",
                    "write a network such as 10.20.0.0/16",
                )
        if declared.open_to and not declared.grafana:
            yield FieldFinding(
                (*path, "open_to"),
                f"site {site.site!r} has `open_to` but 'grafana: false'",
                "remove `open_to` or `grafana: false`",
                value=list(declared.open_to),
            )


@check("monitoring-receivers")
def receivers_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """Without a receiver, alerts are visible only on the web page of Alertmanager."""
    for path, site, declared in _sites(fleet):
        alerts = declared.alerts
        if alerts.webhook is None and alerts.slack is None and alerts.email is None:
            yield FieldFinding(
                path,
                f"alerts of site {site.site!r} (on {monitoring_host(site) or 'no host'}) have no receiver",
                "declare `alerts` with webhook, slack or email",
                "warning",
                site.site,
            )
        for key in ("webhook", "remote_write"):
            item = getattr(alerts, key, None) or getattr(declared, key, None)
            if item is not None and "@" in item.url.split("//", 1)[-1].split("/", 1)[0]:
                where = (*path, "alerts", key) if key == "webhook" else (*path, key)
                yield FieldFinding(
                    (*where, "url"),
                    "the address contains a password, which would be in the fleet file, logs and inventory",
                    "remove it from the address; enter it as a separate secret",
                    value="(an address with a password)",
                )


CHECKS = (
    host_of_monitoring,
    times_of_monitoring,
    racks_of_monitoring,
    networks_of_monitoring,
    receivers_of_monitoring,
)
