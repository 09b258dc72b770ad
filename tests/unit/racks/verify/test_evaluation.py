"""Required and missing measurements."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

from rich.console import Console

from gpufleet.catalog import load_catalog
from gpufleet.plan.models import FleetPlan, OnPremSitePlan
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.verify.evaluation import evaluate
from gpufleet.racks.verify.expected import (
    defaults_of_role,
    measuring_roles,
    roles_of_hosts,
    values_of_hosts,
)
from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.run import VerifyResult
from gpufleet.racks.verify.table import verify_table
from tests.conftest import ROOT

from .samples import GOOD, VALUES, measured

MUNGE = dict(measured("munge").found)


def shown(results: list[Result] | tuple[Result, ...]) -> str:
    printed = StringIO()
    Console(width=160, file=printed).print(verify_table(results))
    return printed.getvalue()


def test_hosts_have_the_roles_of_their_groups(
    make_fleet: Callable[..., FleetPlan], make_rack: Callable[..., OnPremSitePlan]
) -> None:
    plan, catalog = make_fleet(make_rack()), load_catalog()
    measuring = measuring_roles(ROOT / "ansible")
    roles = roles_of_hosts(measuring, build_inventory(plan, catalog), ["dgx001", "ctl01"])
    assert {"base", "nvidia_driver", "fabric_manager", "rdma", "munge", "slurm_node"} <= set(roles["dgx001"])
    assert not {"slurm_controller", "slurm_database", "roce"} & set(roles["dgx001"])
    assert {"base", "munge", "slurm_controller", "slurm_database"} <= set(roles["ctl01"])
    assert not {"nvidia_driver", "slurm_node", "rdma"} & set(roles["ctl01"])


def test_values_are_those_of_the_inventory(
    make_fleet: Callable[..., FleetPlan], make_rack: Callable[..., OnPremSitePlan]
) -> None:
    plan, catalog = make_fleet(make_rack()), load_catalog()
    values = values_of_hosts(build_inventory(plan, catalog))
    assert values["dgx001"]["health_check_gpus"] == 8
    assert values["dgx001"]["gpufleet_role"] == "gpu"
    assert values["ctl01"]["base_gpu_node"] is False
    assert values["ctl01"]["nvidia_driver_version"] == catalog.lock("2026.11").driver


def test_role_defaults_count_unless_ansible_must_resolve_them() -> None:
    defaults = defaults_of_role(ROOT / "ansible", "base")
    assert defaults["base_sysctl"]["vm.swappiness"] == 10
    assert "pyxis_enroot_install" not in defaults_of_role(ROOT / "ansible", "pyxis_enroot")
    assert defaults_of_role(ROOT / "ansible", "nobody") == {}


def test_host_without_measurements_fails_once_with_the_reason() -> None:
    (result,) = evaluate({}, {"dgx01": ["munge", "base"]}, {}, {}, why={"dgx01": "Connection refused"})
    assert (result.role, result.check, result.status) == ("host", "reached", "fail")
    assert result.message == "Connection refused"


def test_unmeasured_role_fails_even_if_others_of_the_host_were_measured() -> None:
    results = evaluate(
        {"dgx01": MUNGE},
        {"dgx01": ["munge", "slurm_node"]},
        {"dgx01": VALUES},
        {},
        why={"dgx01": "slurm_node: oops"},
    )
    assert {item.status for item in results if item.role == "munge"} == {"pass"}
    assert {item.status for item in results if item.role == "slurm_node"} == {"fail"}
    assert all("slurm_node: oops" in item.message for item in results if item.role == "slurm_node")


def test_role_without_a_judge_is_a_failure() -> None:
    (result,) = evaluate({"dgx01": MUNGE}, {"dgx01": ["sauna"]}, {}, {})
    assert (result.role, result.status) == ("sauna", "fail")


def test_measurements_of_unassigned_roles_are_ignored() -> None:
    assert evaluate({"dgx01": MUNGE}, {"dgx01": []}, {}, {}) == ()


def test_table_folds_hosts_and_prints_each_fault_once() -> None:
    bad = {"munge_key_mode": {"rc": 0, "stdout": "munge 644", "stderr": ""}}
    hosts = [f"dgx0{number}" for number in range(1, 5)]
    results = evaluate(
        {host: MUNGE | (bad if host in hosts[1:3] else {}) for host in hosts},
        {host: ["munge"] for host in hosts},
        {},
        {},
    )
    text = shown(results)
    assert " ".join(text.splitlines()[1].split()) == "munge 2 of 4 service, round trip, key fail"
    assert text.count("munge 644 instead of munge 400") == 1
    assert "fail dgx[02-03]: munge: key: munge 644 instead of munge 400" in text
    assert "gpufleet configure <env> --only munge --limit <host>" in text
    assert "fail" not in shown([item for item in results if item.host == "dgx01"])


def test_json_counts_all_checks_and_lists_the_failures() -> None:
    results = evaluate(
        {"dgx01": MUNGE, "dgx02": {}},
        {"dgx01": ["munge"], "dgx02": ["munge"]},
        {},
        {},
        why={"dgx02": "timed out"},
    )
    result = VerifyResult("prod", ("dgx01", "dgx02"), results, ("dgx02",), 1.23456)
    reported = result.to_json()
    assert reported["hosts"] == {
        "dgx01": {"pass": len(GOOD["munge"]), "warn": 0, "fail": 0},
        "dgx02": {"pass": 0, "warn": 0, "fail": 1},
    }
    assert reported["lost_hosts"] == ["dgx02"]
    assert [item["message"] for item in reported["findings"]] == ["timed out"]
    assert reported["duration_s"] == 1.235
