"""Operations and their options: accepted and refused values, and that each has its playbook."""

from __future__ import annotations

import pytest

from gpufleet.cli.verify import MEASURING_WITH_SECRETS
from gpufleet.errors import InputError
from gpufleet.racks.operations.operation import Operation, Option
from gpufleet.racks.operations.registry import OPERATIONS, find_operation
from gpufleet.racks.rack_groups import RACK_GROUPS
from gpufleet.racks.secrets import SECRETS
from tests.conftest import ROOT

DEMO = Operation(
    "demo",
    "playbooks/demo.yml",
    "a demonstration",
    "rack_gpu_nodes",
    options=(
        Option("wait", "int", "seconds", default=60, most=100),
        Option("batch", "batch", "nodes at once"),
        Option("reboot", "bool", "whether", default=True),
        Option("how", "str", "the way", required=True, choices=("this", "that")),
        Option("version", "str", "digits", pattern="[0-9]+"),
    ),
)


def test_options_get_their_types_and_defaults_and_unset_ones_are_left_out() -> None:
    assert DEMO.values(["how=this", "batch=25%", "reboot=No"]) == {
        "wait": 60,
        "batch": "25%",
        "reboot": False,
        "how": "this",
    }


def test_resumed_run_keeps_options_that_are_not_given_again() -> None:
    before = DEMO.values(["how=this", "wait=5"])
    assert DEMO.values(["how=that"], before) == before | {"how": "that"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["how=this", "wait=101"], "a whole number from 0 to 100"),
        (["how=this", "wait=-1"], "a whole number from 0 to 100"),
        (["how=this", "wait=\u0661"], "a whole number from 0 to 100"),
        (["how=this", "batch=0"], "a number of hosts or a percentage"),
        (["how=this", "batch=101%"], "a number of hosts or a percentage"),
        (["how=this", "reboot=maybe"], "yes or no"),
        (["how=other"], "one of this, that"),
        (["how=this", "version=1.2"], "of the form"),
        (["how=this", "version="], "of the form"),
        (["wait=5"], "demo needs option how"),
        (["how"], "has no value"),
        (["how=this", "how=that"], "given twice"),
    ],
)
def test_invalid_option_is_refused_with_the_rule(given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DEMO.values(given)


def test_misspelt_option_or_operation_suggests_the_nearest_name() -> None:
    with pytest.raises(InputError) as option:
        DEMO.values(["how=this", "rebot=yes"])
    assert "did you mean 'reboot'?" in option.value.remedy
    with pytest.raises(InputError) as name:
        find_operation("upgrade-drivers")
    assert "did you mean 'upgrade_driver'?" in name.value.remedy


def test_every_operation_targets_existing_hosts_and_asks_before_damage() -> None:
    roles = {secret.role for secret in SECRETS}
    for operation in OPERATIONS.values():
        assert {operation.group, *operation.also} <= set(RACK_GROUPS), operation.name
        assert set(operation.secrets_of) <= roles, operation.name
        # A backup adds a file, and is made by timers as well.
        assert operation.asks or operation.reads or operation.name == "backup", operation.name
        assert len({option.name for option in operation.options}) == len(operation.options)
        assert not operation.named or any(option.name == "confirm" for option in operation.options)
        for option in operation.options:
            if option.default is not None:
                text = {True: "yes", False: "no"}.get(option.default) if option.kind == "bool" else None
                assert option.read(text or str(option.default)) == option.default


def test_driver_and_fabric_manager_have_one_version() -> None:
    upgrade = OPERATIONS["upgrade_driver"]
    assert upgrade.variables is not None
    assert upgrade.variables(upgrade.values([])) == {}
    asked = upgrade.variables(upgrade.values(["driver=595.91.07"]))
    assert asked == {
        "nvidia_driver_version": "595.91.07",
        "nvidia_driver_branch": 595,
        "fabric_manager_version": "595.91.07",
        "fabric_manager_driver_version": "595.91.07",
        "health_check_driver_version": "595.91.07",
    }
    with pytest.raises(InputError, match="of the form"):
        upgrade.values(["driver=595.91.07; reboot"])


def test_power_is_cut_only_for_named_nodes() -> None:
    cycle = OPERATIONS["power_cycle"]
    assert cycle.named and cycle.one_by_one and cycle.variables is not None
    assert cycle.variables(cycle.values(["confirm=dgx01,dgx02", "timeout=60"])) == {
        "gpufleet_power_cycle": "dgx01,dgx02",
        "gpufleet_power_cycle_forced": False,
        "gpufleet_power_cycle_delay_s": 30,
        "nvidia_driver_reboot_timeout_s": 60,
    }
    with pytest.raises(InputError, match="needs option confirm"):
        cycle.values(["forced=yes"])


@pytest.mark.parametrize("name", ["upgrade_driver", "replace_node", "add_nodes"])
def test_operations_that_judge_nodes_have_the_secrets_for_measuring(name: str) -> None:
    assert set(OPERATIONS[name].secrets_of) >= MEASURING_WITH_SECRETS


def test_every_operation_has_its_playbook() -> None:
    missing = [item.name for item in OPERATIONS.values() if not (ROOT / "ansible" / item.playbook).is_file()]
    assert missing == []
