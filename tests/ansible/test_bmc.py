"""The playbooks of management controllers, run by Ansible against a Redfish service: no node is needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.racks.configure.transport import Transport, transport_environment
from gpufleet.racks.events import TaskEvent, is_done
from gpufleet.racks.runner import PlaybookResult, PlaybookRun, run_playbook
from gpufleet.racks.verify.management import bmc
from gpufleet.racks.verify.measurements import RoleMeasurements
from tests.redfish_server import PASSWORD, SYSTEM, Service

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"
SECRET = "GPUFLEET_SECRET_BMC_PASSWORD_DC_1"
Run = Callable[..., tuple[PlaybookResult, list[TaskEvent]]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.close()


@pytest.fixture
def run(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a playbook on two nodes that are this machine, both with the same BMC."""
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "home"))
    site = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_become": False,
        "gpufleet_site": "dc-1",
        "bmc_address": "127.0.0.1",
        "bmc_port": service.port,
        "bmc_user": "admin",
        "bmc_certificates": {"dgx01": service.fingerprint, "dgx02": service.fingerprint},
        "bmc_model": "DGXH100",
        "bmc_serials": {"dgx01": "1660224000001", "dgx02": "1660224000002"},
        "bmc_power_cap_w": 9000,
        "bmc_boot_order": ["disk", "pxe"],
        "bmc_bios": {"NumaNodes": "8"},
    }
    inventory = tmp_path / "inventory.yaml"

    def call(
        playbook: str = "bmc",
        *,
        transport: Transport = "ssh",
        secret: str = PASSWORD,
        first: dict[str, Any] | None = None,
        **options: Any,
    ) -> tuple[PlaybookResult, list[TaskEvent]]:
        nodes = {"dgx01": first or {}, "dgx02": {}}
        group = {"hosts": nodes, "vars": site}
        inventory.write_text(yaml.safe_dump({"all": {"children": {"rack_bmc": group}}}))
        events: list[TaskEvent] = []
        book = PlaybookRun(
            playbook=f"playbooks/{playbook}.yml",
            inventory=inventory,
            environment=transport_environment(transport),
            secrets={SECRET: secret} if secret else {},
            **({"project": ANSIBLE, "limit": "dgx01"} | options),
        )
        return run_playbook(book, events.append), events

    return call


def changed(events: list[TaskEvent]) -> list[tuple[str, str]]:
    return [(event.host, event.task) for event in events if event.kind == "changed"]


def messages(result: PlaybookResult) -> str:
    return "\n".join(f"{event.host}: {event.message}" for event in result.failures)


@pytest.mark.parametrize("transport", ["ssh", "mitogen"])
def test_check_mode_reports_the_changes_and_a_second_run_changes_nothing(
    run: Run, service: Service, transport: Transport
) -> None:
    _, checked = run(check=True, diff=True, transport=transport)
    assert changed(checked) == [("dgx01", "Configure the BMC")] and service.changes == []
    (task,) = [event for event in checked if event.kind == "changed"]
    assert "power cap: none -> 9000 W" in "".join(diff.text for diff in task.diffs)
    first, events = run(diff=True, transport=transport)
    assert not first.failures, messages(first)
    assert changed(events) == changed(checked)
    assert service.resources[SYSTEM]["Boot"]["BootOrder"] == ["Boot0001", "Boot0003", "Boot0002"]
    _, again = run(transport=transport)
    assert changed(again) == []
    assert PASSWORD not in str([*checked, *events, *again])


def test_bmc_that_belongs_to_another_node_is_refused(run: Run, service: Service) -> None:
    result, events = run(limit="rack_bmc")
    assert {event.host for event in result.failures} == {"dgx02"}
    assert "is the controller of dgx01 (serial number 1660224000001), not of dgx02" in messages(result)
    assert changed(events) == [("dgx01", "Configure the BMC")]


def test_missing_secret_is_named(run: Run, service: Service) -> None:
    result, _ = run(secret="")
    assert f"{SECRET} is not set" in messages(result) and service.requests == []


def test_verify_judges_the_measurements_of_a_bmc(run: Run, service: Service) -> None:
    run()
    _, events = run("verify")
    (found,) = [event.result["measurements"] for event in events if "measurements" in event.result]
    assert json.loads(found["bmc_state"]["stdout"])["power_cap_w"] == 9000
    values = {"bmc_power_cap_w": 9000, "bmc_boot_order": ["disk", "pxe"], "bmc_bios": {"NumaNodes": "8"}}
    judged = {item.check: item.status for item in bmc(RoleMeasurements("dgx01", "bmc", values, found))}
    assert judged == {
        "identity": "pass",
        "health": "pass",
        "power": "pass",
        "power_cap": "pass",
        "boot_order": "pass",
        "bios": "fail",
    }
    service.boot()
    _, events = run("verify")
    (found,) = [event.result["measurements"] for event in events if "measurements" in event.result]
    assert {item.status for item in bmc(RoleMeasurements("dgx01", "bmc", values, found))} == {"pass"}


JUDGE = """\
- hosts: rack_bmc
  gather_facts: false
  vars: { operation: upgrade_driver, operation__until: 0 }
  tasks:
    - ansible.builtin.include_tasks: tasks/judge_node.yml
"""


def test_operation_judges_a_bmc_as_verify_does(run: Run, tmp_path: Path) -> None:
    """Of a node that takes part in nothing else, before it is given back."""
    project = tmp_path / "ansible"
    (project / "playbooks").mkdir(parents=True)
    for name in ("ansible.cfg", "roles", "playbooks/tasks", "playbooks/verify.yml"):
        (project / name).symlink_to(ANSIBLE / name)
    (project / "playbooks" / "judge.yml").write_text(JUDGE)
    unfit, _ = run("judge", project=project)
    assert "bmc: power_cap: no W instead of 9000 W" in messages(unfit)
    without_bios = {"bmc_bios": {}}
    run(first=without_bios)
    fit, _ = run("judge", project=project, first=without_bios)
    assert not fit.failures, messages(fit)


@pytest.mark.parametrize(
    ("named", "reported"),
    [
        ({}, "No node is not named"),
        (
            {"gpufleet_power_cycle": "dgx01,dgx99"},
            "dgx01,dgx99 is not named as a node with a management controller",
        ),
        ({"gpufleet_power_cycle": "dgx01"}, "dgx01 still answers ssh"),
    ],
)
def test_power_is_not_cycled_without_a_named_failed_node(
    run: Run, service: Service, named: dict[str, str], reported: str
) -> None:
    result, _ = run("power_cycle", limit="rack_bmc", variables=named)
    assert reported in messages(result)
    assert service.resets == []


def test_force_power_cycles_only_the_named_node(run: Run, service: Service) -> None:
    given = {
        "gpufleet_power_cycle": "dgx01",
        "gpufleet_power_cycle_forced": True,
        "gpufleet_power_cycle_delay_s": 0,
    }
    result, events = run("power_cycle", limit="rack_bmc", variables=given, check=True)
    assert not result.failures and service.resets == []
    result, events = run("power_cycle", limit="rack_bmc", variables=given)
    assert not result.failures, messages(result)
    assert changed(events) == [("dgx01", "Power cycle the node")]
    assert service.resets == ["PowerCycle"]
    assert [event.host for event in events if is_done(event)] == ["dgx01"]


@pytest.mark.parametrize("transport", ["ssh", "mitogen"])
def test_unreachable_node_is_power_cycled_and_waited_for(
    run: Run, service: Service, monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    """The BMC answers neither before nor after: the wait ends at its limit and reports it."""
    monkeypatch.setenv("ANSIBLE_SSH_RETRIES", "0")
    given = {
        "gpufleet_power_cycle": "dgx01",
        "gpufleet_power_cycle_delay_s": 0,
        "nvidia_driver_reboot_timeout_s": 5,
    }
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    result, events = run("power_cycle", limit="rack_bmc", variables=given, transport=transport, first=gone)
    assert service.resets == ["PowerCycle"], messages(result)
    assert changed(events) == [("dgx01", "Power cycle the node")]
    assert [event.task for event in result.failures] == ["Wait for the node"]
