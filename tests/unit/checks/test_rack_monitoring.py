"""Monitoring of rack sites."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

MONITORING = "onprem.0.monitoring"
ALERTS = {"slack": {"channel": "#gpu"}}


def test_valid_monitoring_passes(judge: Judge) -> None:
    reported = judge(
        {
            MONITORING: {
                "host": "ctl02",
                "interval": "15 s",
                "remote_write": {"url": "https://metrics.example.com/push", "username": "dc1"},
                "alerts": ALERTS,
                "open_to": ["10.20.0.0/16"],
            },
            "onprem.0.racks": [{"name": "r1", "nodes": "dgx[001-004]"}],
        }
    )
    assert reported.rules == set()


@pytest.mark.parametrize(
    ("declared", "rule", "field", "says"),
    [
        ({"host": "dgx001"}, "monitoring-host", ".host", "'dgx001' is not a controller or login host"),
        ({"interval": "4 s"}, "monitoring-times", ".interval", "an interval of 4 s"),
        ({"interval": "121 s"}, "monitoring-times", ".interval", "an interval of 121 s"),
        ({"retention": "23 h"}, "monitoring-times", ".retention", "a retention of 23 h"),
        ({"open_to": ["abba"]}, "monitoring-networks", ".open_to[0]", "is not a network"),
        (
            {"open_to": ["10.0.0.0/8"], "grafana": False},
            "monitoring-networks",
            ".open_to",
            "but 'grafana: false'",
        ),
        (
            {"remote_write": {"url": "https://me:secret@metrics.example.com/push"}},
            "monitoring-receivers",
            ".remote_write.url",
            "the address contains a password",
        ),
        (
            {"alerts": {"webhook": {"url": "https://me:secret@hooks.example.com/"}}},
            "monitoring-receivers",
            ".alerts.webhook.url",
            "the address contains a password",
        ),
    ],
)
def test_invalid_monitoring_is_refused(
    judge: Judge, declared: dict[str, Any], rule: str, field: str, says: str
) -> None:
    finding = judge({MONITORING: {"alerts": ALERTS} | declared}).only(rule)
    assert finding.field == f"onprem[0].monitoring{field}"
    assert says in finding.message
    assert "secret" not in f"{finding.message} {finding.value}"


@pytest.mark.parametrize(
    "declared",
    [
        {"interval": "5 s"},
        {"interval": "2 min"},
        {"retention": "1 d"},
        {"grafana": False},
        {"remote_write": {"url": "https://metrics.example.com/push/@dc1"}},
        {"alerts": {"webhook": {"url": "https://hooks.example.com/"}}},
        {"alerts": {"email": {"to": ["ops@example.com"], "sender": "gpu@example.com", "server": "mx:25"}}},
    ],
)
def test_monitoring_at_the_limits_passes(judge: Judge, declared: dict[str, Any]) -> None:
    assert judge({MONITORING: {"alerts": ALERTS} | declared}).rules == set()


def test_site_without_monitoring_passes(judge: Judge) -> None:
    assert judge().rules == set()


def test_site_without_a_host_for_monitoring_is_refused(judge: Judge) -> None:
    reported = judge(
        {
            MONITORING: {"alerts": ALERTS},
            "onprem.0.controllers": GONE,
            "onprem.0.login": GONE,
        }
    )
    assert "no controller or login host" in reported.of("monitoring-host")[0].message


def test_alerts_without_a_receiver_are_a_warning(judge: Judge) -> None:
    finding = judge({MONITORING: {}}).only("monitoring-receivers", "warning")
    assert finding.message == "alerts of site 'dc1' (on ctl02) have no receiver"
    reported = judge({MONITORING: {}, "onprem.0.controllers": GONE, "onprem.0.login": GONE})
    (finding,) = reported.of("monitoring-receivers")
    assert finding.message == "alerts of site 'dc1' (on no host) have no receiver"


def test_racks_without_a_capacity_are_a_warning(judge: Judge) -> None:
    racks = [{"name": "r1", "nodes": "dgx001"}]
    reported = judge({MONITORING: {"alerts": ALERTS}, "onprem.0.racks": racks, "onprem.0.power": GONE})
    assert [(item.rule, item.severity) for item in reported.of("monitoring-racks")] == [
        ("monitoring-racks", "warning")
    ]
    assert judge({MONITORING: {"alerts": ALERTS}, "onprem.0.power": GONE}).of("monitoring-racks") == []
