"""Preflight of a plan's rack: from the plan to verdicts, with hosts that answer and hosts that do not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.racks import inventory as inventory_module
from gpufleet.racks.preflight import failed
from gpufleet.racks.preflight.run import preflight
from tests.unit.racks.conftest import fleet, hosts, rack

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"


@pytest.fixture
def plan(monkeypatch, tmp_path):
    """A rack whose first node is this machine; the other nodes are unreachable."""
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_SSH_RETRIES", "0")
    ask = inventory_module._host_vars

    def answer(site, host):
        if host.name == "dgx001":
            here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
            return ask(site, host) | here
        return ask(site, host) | {"ansible_host": "127.0.0.1", "ansible_port": 1}

    monkeypatch.setattr(inventory_module, "_host_vars", answer)
    return fleet(rack(hosts=hosts(gpus=2)))


def test_reachable_host_is_judged_and_unreachable_host_fails(plan, catalog):
    events = []
    verdicts = preflight(plan, catalog, ANSIBLE, on_task=events.append)
    by_host = {host: [v for v in verdicts if v.host == host] for host in ("dgx001", "dgx002", "ctl01")}
    assert {"os", "gpus", "nics", "clock", "disk"} <= {verdict.check for verdict in by_host["dgx001"]}
    for host in ("dgx002", "ctl01"):
        assert [(verdict.check, verdict.status) for verdict in by_host[host]] == [("measured", "fail")]
    assert {verdict.host for verdict in failed(verdicts)} >= {"dgx002", "ctl01"}
    assert {event.host for event in events if event.kind == "unreachable"} == {"dgx002", "ctl01"}


def test_limit_judges_only_the_selected_hosts(plan, catalog):
    verdicts = preflight(plan, catalog, ANSIBLE, limit="dgx001")
    assert {verdict.host for verdict in verdicts} == {"dgx001"}


def test_limit_that_selects_no_host_is_bad_input(plan, catalog):
    with pytest.raises(InputError, match="no host"):
        preflight(plan, catalog, ANSIBLE, limit="role_login")
