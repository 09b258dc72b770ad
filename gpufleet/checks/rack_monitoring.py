"""Monitoring of rack sites: where it runs, how often it measures, and what it may be asked for."""

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
    """Prometheus runs on a controller or login host: on a GPU node it would take from jobs what they
    measure, and go with the node."""
    for path, site, declared in _sites(fleet):
        hosts = [host for part in (site.controllers, site.login) if part is not None for host in part.hosts]
        if not hosts:
            yield FieldFinding(
                path,
                f"site {site.site!r} has no controller and no login host that could run Prometheus",
                "declare `controllers` or `login`",
                value=site.site,
            )
        elif declared.host is not None and declared.host not in hosts:
            yield FieldFinding(
                (*path, "host"),
                f"{declared.host!r} is no controller and no login host of site {site.site!r}",
                did_you_mean(nearest(declared.host, hosts), f"use one of {listed(hosts)}"),
            )


@check("monitoring-times")
def times_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """Prometheus forgets a series that it has not seen for 5 minutes (its lookback), so that a longer
    interval shows gaps; within 5 s DCGM has nothing new and the nodes do nothing else (our own bound)."""
    for path, _, declared in _sites(fleet):
        if not timedelta(seconds=5) <= declared.interval.delta <= timedelta(minutes=2):
            yield FieldFinding(
                (*path, "interval"),
                f"an interval of {declared.interval} is outside of what alerts and graphs are made for",
                "write 5 s to 2 min",
            )
        if declared.retention.delta < timedelta(days=1):
            yield FieldFinding(
                (*path, "retention"),
                f"series that are gone after {declared.retention} do not explain last night's fault",
                "write 1 d or more",
            )


@check("monitoring-racks")
def racks_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """An alert on a rack's power needs its capacity, which is a figure of `power`."""
    for path, site, _ in _sites(fleet):
        if site.racks and site.power is None:
            yield FieldFinding(
                (*path[:-1], "racks"),
                f"racks of site {site.site!r} have no capacity to compare with: no alert is sent when one"
                " draws too much",
                "declare `power` with `per_rack`",
                "warning",
                site.site,
            )


@check("monitoring-networks")
def networks_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """What Grafana is opened to is a network, and Grafana is there."""
    for path, site, declared in _sites(fleet):
        for index, network in enumerate(declared.open_to):
            try:
                ipaddress.ip_network(network)
            except ValueError:
                yield FieldFinding(
                    (*path, "open_to", index), f"{network!r} is no network", "write it as 10.20.0.0/16"
                )
        if declared.open_to and not declared.grafana:
            yield FieldFinding(
                (*path, "open_to"),
                f"site {site.site!r} opens Grafana and has none",
                "leave `open_to` or `grafana: false` out",
                value=list(declared.open_to),
            )


@check("monitoring-receivers")
def receivers_of_monitoring(fleet: Fleet) -> Iterator[FieldFinding]:
    """An alert without a receiver shows only on a web page."""
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
                    "a password in an address is in the fleet file, in logs and in the inventory",
                    "leave it out of the address; it is a secret of its own",
                    value="(an address with a password)",
                )


CHECKS = (
    host_of_monitoring,
    times_of_monitoring,
    racks_of_monitoring,
    networks_of_monitoring,
    receivers_of_monitoring,
)
