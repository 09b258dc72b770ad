"""Monitoring of a rack site: where it runs, and the figures that its alerts and dashboards count with."""

from __future__ import annotations

from gpufleet.plan.rack_models import MonitoringPlan
from gpufleet.spec.models import OnPremSite


def plan_monitoring(site: OnPremSite) -> MonitoringPlan | None:
    """Monitoring of the site, None where it declares none."""
    declared = site.monitoring
    if declared is None:
        return None
    write, alerts, power = declared.remote_write, declared.alerts, site.power
    owned = site.ownership
    return MonitoringPlan(
        host=monitoring_host(site),
        interval_s=max(1, round(declared.interval.delta.total_seconds())),
        retention_s=round(declared.retention.delta.total_seconds()),
        retention_gib=int(declared.retention_size.gib) if declared.retention_size is not None else None,
        remote_write_url=write.url if write is not None else None,
        remote_write_user=write.username if write is not None else None,
        webhook_url=alerts.webhook.url if alerts.webhook is not None else None,
        webhook_token=alerts.webhook is not None and alerts.webhook.token,
        slack_channel=alerts.slack.channel if alerts.slack is not None else None,
        heartbeat=alerts.heartbeat,
        email_to=alerts.email.to if alerts.email is not None else (),
        email_sender=alerts.email.sender if alerts.email is not None else None,
        email_server=alerts.email.server if alerts.email is not None else None,
        email_user=alerts.email.username if alerts.email is not None else None,
        grafana=declared.grafana,
        open_to=declared.open_to,
        racks={item.name: item.nodes.hosts for item in site.racks},
        rack_kw=power.per_rack.kw if power is not None else None,
        pue=power.pue if power is not None else None,
        energy_price=power.price.amount if power is not None else None,
        node_hour_cost=(
            owned.acquisition.amount / (int(owned.lifetime.delta.total_seconds()) // 3600 or 1)
            if owned is not None
            else None
        ),
    )


def monitoring_host(site: OnPremSite) -> str:
    """The host that runs it: as declared; else the last controller, which is alive where the first is not;
    else the first login host. Empty where there is none, which a check refuses."""
    if site.monitoring is not None and site.monitoring.host is not None:
        return site.monitoring.host
    if site.controllers is not None:
        return site.controllers.hosts[-1]
    return site.login.hosts[0] if site.login is not None else ""
