"""What the inventory tells roles: complete, in the roles' own names, and known to each role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.onprem.inventory import build_inventory
from gpufleet.onprem.rack_groups import RACK_GROUPS
from gpufleet.onprem.reference import reference
from gpufleet.onprem.secrets import SECRETS
from gpufleet.onprem.variables import VARIABLES
from gpufleet.plan.rack import plan_rack
from tests.unit.onprem.conftest import declared_site

ROOT = Path(__file__).resolve().parents[3]
ROLES = ROOT / "ansible" / "roles"
WRITTEN = sorted(
    {item.role for item in (*VARIABLES, *SECRETS)}
    & {path.parent.parent.name for path in ROLES.glob("*/meta/argument_specs.yml")}
)
TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
}
EVERYTHING: dict[str, Any] = {
    "login": "login01",
    "network": "10.60.0.0/22",
    "fabric": {
        "kind": "infiniband",
        "speed": "ndr",
        "rails": [f"mlx5_{n}" for n in range(8)],
        "subnet_managers": [
            {"host": "login01", "priority": 1},
            {"host": "ctl01", "priority": 15, "port_guid": "0x0002c903000e0b72"},
        ],
        "switches": [
            {"name": "leaf0", "nodes": "dgx[001-002]", "uplinks": ["spine0"]},
            {"name": "leaf1", "nodes": "dgx003", "uplinks": ["spine0"]},
            {"name": "spine0", "tier": "spine", "guid": "0x0002c903000e0b73"},
        ],
        "partitions": [{"name": "storage", "pkey": "0x0001", "ipoib": True}],
    },
    "slurm": {"state": "nas01:/export/slurm"},
    "local_nvme": {"mount": "/raid", "cache": "/raid/cache", "drives": 8},
    "package_mirror": "http://mirror.example.com/rack",
    "time_servers": ["ntp1.example.com"],
    "addresses": {"ctl01": "10.60.0.11"},
    "groups": [{"name": "vision", "gid": 3001}],
    "users": [{"name": "ada", "uid": 2001, "groups": ["vision"], "teams": ["research"]}],
}


@pytest.fixture
def document(make_fleet, make_rack, catalog):
    site = make_rack(
        rack=plan_rack(declared_site(**EVERYTHING)),
        fabric_kind="infiniband",
        mounts=(("nfs", "nas01:/home", "/shared/home"), ("lustre", "mds@o2ib:/s", "/shared/scratch")),
    )
    return build_inventory(make_fleet(site), catalog)


def given(document: dict[str, Any], host: str = "ctl01") -> dict[str, Any]:
    """The variables of a host, as Ansible merges them."""
    site = document["all"]["children"]["site_dc1"]
    return document["all"]["vars"] | site["vars"] | site["hosts"][host]


def test_every_variable_is_given_with_its_type_where_the_fleet_file_says_everything(document):
    values = given(document)
    for variable in VARIABLES:
        if variable.full_name == "nccl_traffic_class":
            assert variable.full_name not in values
            continue
        assert isinstance(values[variable.full_name], TYPES[variable.type]), variable.full_name


def test_a_site_that_says_nothing_gets_no_null_and_no_empty_promise(make_fleet, make_rack, catalog):
    values = given(build_inventory(make_fleet(make_rack()), catalog))
    mine = {item.full_name for item in VARIABLES} & set(values)
    assert all(values[name] is not None for name in mine)
    for absent in (
        "local_nvme_mount",
        "base_package_mirror",
        "pyxis_enroot_scratch",
        "subnet_manager_priority",
    ):
        assert absent not in values


def test_the_driver_and_fabric_manager_are_the_locks_and_equal(document, catalog):
    values = given(document)
    assert values["nvidia_driver_version"] == catalog.lock("2026.11").driver
    assert values["fabric_manager_version"] == values["fabric_manager_driver_version"]
    assert values["fabric_manager_version"] == values["nvidia_driver_version"]
    assert values["nvidia_driver_open_modules"] is True


def test_only_subnet_managers_get_a_priority_and_the_master_comes_first(document):
    assert given(document)["subnet_manager_priority"] == 15
    assert given(document)["subnet_manager_port_guid"] == "0x0002c903000e0b72"
    assert given(document)["subnet_manager_hosts"] == [
        {"name": "ctl01", "priority": 15},
        {"name": "login01", "priority": 1},
    ]
    assert "subnet_manager_priority" not in given(document, "dgx001")
    groups = document["all"]["children"]
    assert list(groups["rack_subnet_managers"]["hosts"]) == ["ctl01"]
    assert given(document)["base_gpu_node"] is False
    assert given(document, "dgx001")["base_gpu_node"] is True


def test_every_group_exists_and_holds_whom_it_says(document):
    groups = {name: list(body.get("hosts", {})) for name, body in document["all"]["children"].items()}
    nodes = ["dgx001", "dgx002", "dgx003"]
    assert set(RACK_GROUPS) <= set(groups)
    assert groups["rack_gpu_nodes"] == groups["rack_slurm_nodes"] == groups["rack_nvswitch"] == nodes
    assert groups["rack_infiniband"] == groups["rack_local_nvme"] == nodes
    assert groups["rack_roce"] == []
    assert groups["rack_rdma"] == [*nodes, "ctl01"]
    assert groups["rack_slurm_database"] == groups["rack_controllers"] == ["ctl01"]
    assert groups["rack_slurm"] == [*nodes, "ctl01"]
    assert groups["rack_nfs_clients"] == groups["rack_lustre_clients"] == nodes


def test_roce_gives_nccl_the_traffic_class_of_its_dscp(make_fleet, make_rack, catalog):
    fabric = {"kind": "roce", "speed": "400gbe", "roce": {"dscp": 26}}
    site = make_rack(rack=plan_rack(declared_site(fabric=fabric)), fabric_kind="roce")
    document = build_inventory(make_fleet(site), catalog)
    assert given(document)["nccl_traffic_class"] == 104
    assert list(document["all"]["children"]["rack_roce"]["hosts"]) == ["dgx001", "dgx002", "dgx003"]


def test_a_kubernetes_site_gets_nothing_of_slurm(make_fleet, make_rack, catalog):
    site = make_rack(rack=plan_rack(declared_site(scheduler="kubernetes")), scheduler="kubernetes")
    document = build_inventory(make_fleet(site), catalog)
    values = given(document)
    assert not [name for name in values if name.startswith("slurm_")]
    assert values["health_check_slurm"] is False
    assert not document["all"]["children"]["rack_slurm"]


def test_names_begin_with_their_role_and_are_unique():
    names = [item.full_name for item in VARIABLES]
    assert len(names) == len(set(names))
    for item in VARIABLES:
        assert item.meaning.endswith((".", ")")), item.full_name
        assert item.meaning[0].isupper() or item.meaning[0] == "`"


@pytest.mark.parametrize("role", WRITTEN)
def test_what_a_role_is_given_is_in_its_argument_specs_with_its_type(role):
    """For every role that is written; the names of those that are not yet stand in the same table."""
    specs = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"]["options"]
    for item in (each for each in VARIABLES if each.role == role):
        assert item.full_name in options, f"{role} does not know {item.full_name}"
        assert options[item.full_name].get("type", "str") in _accepted(item.type), item.full_name
    for secret in (each for each in SECRETS if each.role == role):
        assert options[secret.variable].get("no_log", True), f"{secret.variable} is shown"
        assert "default" not in options[secret.variable], f"{secret.variable} has a default"


def _accepted(kind: str) -> tuple[str, ...]:
    return (kind, "path") if kind == "str" else (kind,)


def test_the_reference_page_is_current():
    page = (ROOT / "docs" / "reference" / "rack_variables.md").read_text(encoding="utf-8")
    assert page == reference(), "run `make docs`"
