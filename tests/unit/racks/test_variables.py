"""Inventory variables of roles: complete, with the names of the roles, and documented."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.plan.models import FabricPlan, MountPlan
from gpufleet.plan.rack import plan_rack
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.rack_groups import RACK_GROUPS
from gpufleet.racks.secrets import SECRETS
from gpufleet.racks.variables import VARIABLES, Variable
from tests.documents.rack_variables import reference
from tests.unit.racks.conftest import declared_site

ROOT = Path(__file__).resolve().parents[3]
ROLES = ROOT / "ansible" / "roles"
WRITTEN = sorted(
    ({item.role for item in VARIABLES} | {item.role for item in SECRETS})
    & {path.parent.parent.name for path in ROLES.glob("*/meta/argument_specs.yml")}
)
TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "path": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
}


@cache
def main_options(role: str) -> dict[str, Any]:
    """Variable -> its specification in the role's argument_specs."""
    specs = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options: dict[str, Any] = specs["argument_specs"]["main"]["options"]
    return options


def accepted_type(variable: Variable) -> type | tuple[type, ...]:
    """The value that the role gets for the variable."""
    return TYPES[main_options(variable.role)[variable.full_name].get("type", "str")]


CONTAINERS = ("container_toolkit_runtimes", "container_toolkit_environment_needs_privileges")
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
    "power": {"per_rack": "40 kW", "pue": 1.25, "price": "0.11 USD/kWh"},
    "ownership": {"acquisition": "262800 USD", "lifetime": "5 y"},
    "monitoring": {
        "retention_size": "200 GiB",
        "remote_write": {"url": "https://metrics.example.com/push", "username": "dc1"},
        "alerts": {
            "webhook": {"url": "https://hooks.example.com/gpu", "token": True},
            "slack": {"channel": "#gpu"},
            "email": {
                "to": ["ops@example.com"],
                "sender": "gpufleet@example.com",
                "server": "mail.example.com:587",
                "username": "gpufleet",
            },
        },
        "open_to": ["10.20.0.0/16"],
    },
    "racks": [{"name": "r1", "nodes": "dgx[001-002]"}],
    "local_nvme": {"mount": "/raid", "cache": "/raid/cache", "drives": 8},
    "management": {
        "user": "admin",
        "ca": "/etc/ssl/bmc.pem",
        "certificates": {"dgx001": "ab" * 32},
        "serials": {"dgx001": "1660224000001"},
        "firmware": {"HostBMC_0": "24.09.17"},
        "power_cap": "9.5 kW",
        "boot_order": ["disk", "pxe"],
        "bios": {"SriovEnable": "Enabled"},
    },
    "mig": [
        {"nodes": "dgx[001-002]", "gpus": [0, 7], "profiles": {"3g.40gb": 2}},
        {"nodes": "dgx003", "profiles": {"1g.10gb": 7}},
    ],
    "package_mirror": "http://mirror.example.com/rack",
    "image_mirror": "https://registry.example.com",
    "doca": {
        "repository": "https://mirror.example.com/doca",
        "key": "/etc/ssl/doca.gpg",
        "fingerprint": "AB" * 20,
    },
    "time_servers": ["ntp1.example.com"],
    "backups": {"s3": {"url": "s3://atlas-backups/dc1", "endpoint": "https://s3.example.com"}, "keep": 9},
    "addresses": {"ctl01": "10.60.0.11"},
    "groups": [{"name": "vision", "gid": 3001}],
    "users": [{"name": "ada", "uid": 2001, "groups": ["vision"], "teams": ["research"]}],
}


KUBERNETES: dict[str, Any] = {
    "scheduler": "kubernetes",
    "kubernetes": {
        "version": "1.36",
        "endpoint": "10.60.0.10",
        "node_groups": [
            {"name": "shared", "nodes": "dgx001", "taints": [{"key": "example.com/a"}], "labels": {"b": "c"}}
        ],
    },
    "racks": [{"name": "r1", "nodes": "dgx[001-002]"}],
    "mig": [{"nodes": "dgx001", "profiles": {"1g.10gb": 7}}],
}


@pytest.fixture
def kubernetes(make_kubernetes):
    return make_kubernetes()


@pytest.fixture
def make_kubernetes(make_fleet, make_rack, catalog):
    return lambda **more: kubernetes_inventory(make_fleet, make_rack, catalog, **more)


def kubernetes_inventory(make_fleet, make_rack, catalog, **more):
    declared = declared_site(
        fabric={
            "kind": "infiniband",
            "speed": "ndr",
            "switches": [{"name": f"leaf{rail}", "rail": rail, "nodes": "dgx[001-003]"} for rail in range(8)],
        },
        **KUBERNETES,
        **more,
    )
    return build_inventory(make_fleet(make_rack(rack=plan_rack(declared), scheduler="kubernetes")), catalog)


@pytest.fixture
def document(make_fleet, make_rack, catalog):
    site = make_rack(
        rack=plan_rack(declared_site(**EVERYTHING)),
        fabric=FabricPlan("infiniband", "ndr", "rail-optimized"),
        mounts=(
            MountPlan("nfs", "nas01:/home", "/shared/home"),
            MountPlan("lustre", "mds@o2ib:/s", "/shared/scratch"),
            MountPlan("weka", "weka01,weka02/fast", "/fast", ("num_cores=2", "net=ib0")),
            MountPlan("gpfs", "archive", "/archive"),
        ),
    )
    return build_inventory(make_fleet(site), catalog)


def given(document: dict[str, Any], host: str = "ctl01") -> dict[str, Any]:
    """The variables of a host, as Ansible merges them."""
    site = document["all"]["children"]["site_dc1"]
    return document["all"]["vars"] | site["vars"] | site["hosts"][host]


def test_complete_fleet_file_sets_every_variable_with_its_type(document):
    # Some are only for GPU nodes, others for a subnet manager.
    values = given(document, "dgx001") | given(document)
    for variable in VARIABLES:
        of_kubernetes = "kubernetes_" in variable.full_name or variable.full_name in CONTAINERS
        # RoCE sites have the one, servers in the cloud the other.
        others = variable.full_name in ("nccl_traffic_class", "nfs_client_options")
        if others or (of_kubernetes and variable.scope != "fleet"):
            assert variable.full_name not in values
            continue
        assert isinstance(values[variable.full_name], accepted_type(variable)), variable.full_name


def test_kubernetes_site_sets_every_variable_of_its_roles_with_its_type(kubernetes, catalog):
    values = given(kubernetes)
    # Those of kubernetes_gpu have separate tests.
    roles = {f"kubernetes_{part}" for part in ("base", "endpoint", "control_plane", "node")}
    for variable in (item for item in VARIABLES if item.role in roles):
        if variable.name in {"chart_mirror", "image_mirror"}:
            assert variable.full_name not in values  # the site has none
            continue
        assert isinstance(values[variable.full_name], accepted_type(variable)), variable.full_name
    release = catalog.lock("2026.11").kubernetes_releases["1.36"]
    assert values["kubernetes_control_plane_version"] == values["kubernetes_node_version"] == release
    assert values["kubernetes_node_endpoint"] == "10.60.0.10:6443"
    assert values["kubernetes_endpoint_members"] == [{"name": "ctl01", "address": "ctl01.dc1.example.com"}]


def test_containers_of_kubernetes_get_gpus_only_by_request(kubernetes, document):
    assert given(kubernetes, "dgx001")["kubernetes_base_nvidia_runtime"] is True
    values = given(kubernetes)
    assert values["kubernetes_base_nvidia_runtime"] is False
    assert values["container_toolkit_environment_needs_privileges"] is True
    # The role kubernetes_base owns containerd's configuration.
    assert values["container_toolkit_runtimes"] == ["docker"]
    # On Slurm sites Pyxis sets NVIDIA_VISIBLE_DEVICES in the containers of jobs.
    assert not set(CONTAINERS) & set(given(document, "dgx001"))


def test_pods_are_kept_from_hosts_and_reach_the_api(kubernetes):
    network = given(kubernetes)["kubernetes_gpu_network"]
    # Its hosts have names only, which network policies do not know.
    assert network == {
        "pod_network": "10.244.0.0/16",
        "hosts": ["10.60.0.10/32"],
        "api": ["10.60.0.10/32"],
        "port": 6443,
    }


def test_monitoring_of_a_kubernetes_site_has_its_members_and_their_figures(make_kubernetes):
    values = given(make_kubernetes(monitoring={}))
    assert values["kubernetes_control_plane_metrics"] is True
    assert values["prometheus_kubernetes_members"] == values["kubernetes_control_plane_members"]
    assert values["prometheus_kubernetes_port"] == 6443
    assert values["prometheus_kubernetes_dns"] == "10.96.0.10"
    assert values["grafana_dashboards"] == ["kubernetes"]
    without = given(make_kubernetes())
    assert without["kubernetes_control_plane_metrics"] is False
    assert not any(name.startswith(("prometheus_kubernetes", "grafana_")) for name in without)


def test_nodes_are_labelled_with_place_and_purpose(kubernetes):
    values = given(kubernetes)
    labels = values["kubernetes_control_plane_node_labels"]
    assert labels["dgx001"] == {
        "b": "c",
        "gpufleet.io/leaf": "unit-leaf0",
        "gpufleet.io/node-group": "shared",
        "gpufleet.io/rack": "r1",
        "gpufleet.io/site": "dc1",
        "gpufleet.io/system": "dgx-h100",
        **{f"gpufleet.io/rail-{rail}": f"leaf{rail}" for rail in range(8)},
    }
    assert labels["dgx003"]["gpufleet.io/node-group"] == "gpu"
    assert "gpufleet.io/rack" not in labels["dgx003"]
    assert values["kubernetes_control_plane_node_taints"] == {
        "dgx001": [{"key": "example.com/a", "value": "", "effect": "NoSchedule"}],
        "dgx002": [],
        "dgx003": [],
    }


def test_kubernetes_site_has_its_own_groups_and_none_of_slurm(kubernetes):
    groups = {name: list(body.get("hosts", {})) for name, body in kubernetes["all"]["children"].items()}
    nodes = ["dgx001", "dgx002", "dgx003"]
    assert groups["rack_kubernetes"] == [*nodes, "ctl01"]
    assert groups["rack_kubernetes_nodes"] == nodes
    for name in ("first", "control_plane", "endpoint"):
        assert groups[f"rack_kubernetes_{name}"] == ["ctl01"]
    assert not [name for name, hosts in groups.items() if name.startswith("rack_slurm") and hosts]


def test_single_member_without_a_virtual_address_is_reached_at_its_own(make_fleet, make_rack, catalog):
    site = make_rack(rack=plan_rack(declared_site(scheduler="kubernetes")), scheduler="kubernetes")
    document = build_inventory(make_fleet(site), catalog)
    assert given(document)["kubernetes_node_endpoint"] == "ctl01.dc1.example.com:6443"
    assert "kubernetes_endpoint_address" not in given(document)
    assert not document["all"]["children"]["rack_kubernetes_endpoint"]


def test_minimal_site_has_no_null_and_no_empty_variable(make_fleet, make_rack, catalog):
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


def test_key_of_doca_is_the_one_of_the_lock_unless_the_site_names_another(
    document, make_fleet, make_rack, catalog
):
    plain = given(build_inventory(make_fleet(make_rack()), catalog))
    assert plain["base_doca_key_fingerprint"] == catalog.lock("2026.11").doca_key_fingerprint
    assert "base_doca_repository" not in plain and "base_doca_key" not in plain
    own = given(document)
    assert own["base_doca_key_fingerprint"] == "AB" * 20 and own["base_doca_key"] == "/etc/ssl/doca.gpg"
    assert own["base_doca_repository"] == "https://mirror.example.com/doca"


def test_driver_and_fabric_manager_have_the_version_of_the_lock(document, catalog):
    values = given(document)
    assert values["nvidia_driver_version"] == catalog.lock("2026.11").driver
    assert values["fabric_manager_version"] == values["fabric_manager_driver_version"]
    assert values["fabric_manager_version"] == values["nvidia_driver_version"]
    assert values["nvidia_driver_open_modules"] is True


def test_node_gets_its_own_mig_layout_and_slurm_gets_all(document):
    two = {"3g.40gb": 2}
    assert given(document, "dgx001")["mig_layout"] == {"0": two, "7": two}
    assert given(document, "dgx002")["slurm_node_mig"] == {"0": two, "7": two}
    assert given(document, "dgx003")["mig_layout"] == {str(gpu): {"1g.10gb": 7} for gpu in range(8)}
    assert "mig_layout" not in given(document)
    assert given(document)["slurm_controller_mig"] == [
        {"nodes": ["dgx001", "dgx002"], "gpus": [0, 7], "profiles": two},
        {"nodes": ["dgx003"], "gpus": list(range(8)), "profiles": {"1g.10gb": 7}},
    ]


def test_bmc_is_managed_if_the_site_declares_it(document):
    values = given(document, "dgx002")
    assert values["bmc_address"] == "bmc002.dc1.example.com"
    assert (values["bmc_protocol"], values["bmc_port"], values["bmc_model"]) == ("redfish", 443, "DGXH100")
    assert values["bmc_power_cap_w"] == 9500
    assert "bmc_address" not in given(document)
    assert not [name for name in values if "password" in name]


def test_bmcs_and_gpus_are_unmanaged_by_default(make_fleet, make_rack, catalog):
    document = build_inventory(make_fleet(make_rack()), catalog)
    values = given(document, "dgx001")
    assert not [name for name in values if name.startswith(("bmc_", "mig_l"))]
    assert not document["all"]["children"]["rack_bmc"] and not document["all"]["children"]["rack_mig"]


def test_empty_list_of_layouts_makes_all_gpus_whole(make_fleet, make_rack, catalog):
    site = make_rack(rack=plan_rack(declared_site(mig=[])))
    document = build_inventory(make_fleet(site), catalog)
    assert given(document, "dgx001")["mig_layout"] == {}
    assert list(document["all"]["children"]["rack_mig"]["hosts"]) == ["dgx001", "dgx002", "dgx003"]
    assert "slurm_controller_mig" not in given(document)


def test_backups_are_copied_from_the_database_host_and_from_every_member(
    document, make_fleet, make_rack, catalog
):
    values = given(document)
    assert values["backup_target_store"] == {
        "kind": "s3",
        "url": "s3://atlas-backups/dc1",
        "endpoint": "https://s3.example.com",
    }
    folder = "/var/backups/gpufleet/slurm"
    (source,) = values["backup_target_sources"]
    assert source == {"name": "slurm", "folder": folder, "local": "slurm-dc1", "remote": "slurm-dc1"}
    assert list(document["all"]["children"]["rack_backup_target"]["hosts"]) == ["ctl01"]
    assert "backup_target_sources" not in given(document, "dgx001")
    rsync = {"to": "backup@vault:/srv", "port": 2222, "host_key": "ssh-ed25519 AAAA"}
    declared = declared_site(scheduler="kubernetes", backups={"rsync": rsync})
    site = make_rack(rack=plan_rack(declared), scheduler="kubernetes")
    values = given(build_inventory(make_fleet(site), catalog))
    assert values["backup_target_store"] == {"kind": "rsync", **rsync}
    assert [item["remote"] for item in values["backup_target_sources"]] == ["etcd-dc1-ctl01"]
    plain = build_inventory(make_fleet(make_rack()), catalog)
    assert not plain["all"]["children"]["rack_backup_target"]
    assert not [name for name in given(plain) if name.startswith("backup_target")]


def test_only_subnet_managers_get_a_priority_and_the_master_is_first(document):
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


def test_every_group_exists_with_its_hosts(document):
    groups = {name: list(body.get("hosts", {})) for name, body in document["all"]["children"].items()}
    nodes = ["dgx001", "dgx002", "dgx003"]
    assert set(RACK_GROUPS) <= set(groups)
    assert groups["rack_gpu_nodes"] == groups["rack_slurm_nodes"] == groups["rack_nvswitch"] == nodes
    assert groups["rack_infiniband"] == groups["rack_local_nvme"] == nodes
    assert groups["rack_roce"] == []
    assert groups["rack_bmc"] == groups["rack_mig"] == nodes
    assert groups["rack_rdma"] == [*nodes, "ctl01"]
    assert groups["rack_slurm_database"] == groups["rack_controllers"] == ["ctl01"]
    assert groups["rack_slurm"] == [*nodes, "ctl01"]
    assert groups["rack_nfs_clients"] == groups["rack_lustre_clients"] == nodes
    assert groups["rack_parallel_fs_clients"] == nodes


def test_parallel_file_systems_with_options_reach_only_their_role(document):
    values = given(document, "dgx001")
    fast, archive = values["parallel_fs_client_mounts"]
    assert fast == {
        "kind": "weka",
        "source": "weka01,weka02/fast",
        "path": "/fast",
        "options": ["num_cores=2", "net=ib0"],
    }
    assert archive == {"kind": "gpfs", "source": "archive", "path": "/archive", "options": []}
    assert [item["path"] for item in values["nfs_client_mounts"]] == ["/shared/home"]
    assert [item["path"] for item in values["lustre_client_mounts"]] == ["/shared/scratch"]


@pytest.mark.parametrize("kind", ["infiniband", "roce"])
def test_rails_come_from_the_catalog_where_the_fleet_file_has_none(make_fleet, make_rack, catalog, kind):
    rails = list(catalog.system("dgx-h100").rails)
    fabric = {"kind": kind, "speed": "ndr" if kind == "infiniband" else "400gbe"}
    declared = plan_rack(declared_site(fabric=fabric, monitoring={"host": "ctl01"}), tuple(rails))
    values = given(build_inventory(make_fleet(make_rack(rack=declared)), catalog), "dgx001")
    for name in (
        "nccl_devices",
        "rdma_devices",
        "roce_devices",
        "health_check_devices",
        "prometheus_devices",
    ):
        assert values[name] == rails
    assert values["health_check_nvlinks"]["H100 80GB HBM3"] == 18
    own = plan_rack(declared_site(fabric={**fabric, "rails": ["mlx5_7"]}), tuple(rails))
    assert own.rails == ("mlx5_7",)


def test_the_bridges_of_a_system_reach_the_health_check(make_fleet, make_rack, catalog):
    site = make_rack(system="dgx-b200", gpu="B200")
    values = given(build_inventory(make_fleet(site), catalog), "dgx001")
    assert values["health_check_bridges"] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]


def test_roce_sets_the_nccl_traffic_class_of_its_dscp(make_fleet, make_rack, catalog):
    fabric = {"kind": "roce", "speed": "400gbe", "roce": {"dscp": 26}}
    site = make_rack(
        rack=plan_rack(declared_site(fabric=fabric)), fabric=FabricPlan("roce", "ndr", "rail-optimized")
    )
    document = build_inventory(make_fleet(site), catalog)
    assert given(document)["nccl_traffic_class"] == 104
    assert list(document["all"]["children"]["rack_roce"]["hosts"]) == ["dgx001", "dgx002", "dgx003"]


def test_kubernetes_site_gets_no_slurm_variables(make_fleet, make_rack, catalog):
    site = make_rack(rack=plan_rack(declared_site(scheduler="kubernetes")), scheduler="kubernetes")
    document = build_inventory(make_fleet(site), catalog)
    values = given(document)
    assert not [name for name in values if name.startswith("slurm_")]
    assert values["health_check_slurm"] is False
    assert not document["all"]["children"]["rack_slurm"]


def test_slurm_site_gets_no_kubernetes_variables(document):
    everywhere = {item.full_name for item in VARIABLES if item.scope == "fleet"}
    assert not [name for name in set(given(document)) - everywhere if name.startswith("kubernetes_")]
    assert not document["all"]["children"]["rack_kubernetes"]


def test_names_start_with_their_role_and_are_unique():
    names = [item.full_name for item in VARIABLES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("role", WRITTEN)
def test_every_given_variable_is_documented_in_the_argument_specs(role):
    options = main_options(role)
    for item in (each for each in VARIABLES if each.role == role):
        assert item.full_name in options, f"{role} does not know {item.full_name}"
        meaning = "".join(options[item.full_name]["description"])
        assert meaning.endswith((".", ")")), item.full_name
        assert meaning[0].isupper() or meaning[0] == "`", item.full_name
    for secret in (each for each in SECRETS if each.role == role):
        assert options[secret.variable].get("no_log", True), f"{secret.variable} is shown"
        assert options[secret.variable].get("default", "") == "", f"{secret.variable} has a default"


def test_reference_page_is_current():
    page = (ROOT / "docs" / "reference" / "rack_variables.md").read_text(encoding="utf-8")
    assert page == reference(), "run `make docs`"


def test_divided_gpus_are_as_many_devices_as_declared(kubernetes):
    pools = {item["name"]: item for item in given(kubernetes)["kubernetes_gpu_pools"]}
    assert (pools["shared"]["mig_profile"], pools["shared"]["per_gpu"]) == ("1g.10gb", 7)
    assert pools["shared"]["resource"] == "nvidia.com/mig-1g.10gb"
    assert (pools["gpu"]["mig_profile"], pools["gpu"]["per_gpu"]) == ("", 1)


def test_prometheus_gets_every_host_and_the_cost_of_the_site(document):
    values = given(document)
    assert values["prometheus_targets"][0] == {
        "name": "dgx001",
        "address": "dgx001.dc1.example.com",
        "role": "gpu",
        "rack": "r1",
    }
    assert [item["rack"] for item in values["prometheus_targets"]] == ["r1", "r1", "", ""]
    # 10.2 kW of a node at most (catalog), less eight GPUs of 700 W.
    assert values["prometheus_node_base_w"] == 4600
    assert (values["prometheus_rack_w"], values["prometheus_energy_price"]) == (40000, 0.11)
    # 262,800 USD over 43,800 hours.
    assert values["prometheus_node_hour_cost"] == 6
    assert values["prometheus_link_gbps"] == 400
    assert values["prometheus_ports"] == 8


def test_only_the_monitoring_host_opens_grafana_and_every_host_has_an_exporter(document):
    assert given(document)["firewall_open"] == [
        {"port": "3000", "protocol": "tcp", "networks": ["10.20.0.0/16"]}
    ]
    assert "firewall_open" not in given(document, "dgx001")
    groups = document["all"]["children"]
    for name in ("rack_monitoring", "rack_slurm_exporter", "rack_grafana"):
        assert list(groups[name]["hosts"]) == ["ctl01"]
    assert list(groups["rack_exporters"]["hosts"]) == ["dgx001", "dgx002", "dgx003", "ctl01"]


def test_site_without_monitoring_has_no_monitoring_variables(make_fleet, make_rack, catalog):
    document = build_inventory(make_fleet(make_rack()), catalog)
    values = given(document)
    assert not [name for name in values if name.startswith(("prometheus_", "alertmanager_", "grafana_"))]
    for name in ("rack_exporters", "rack_monitoring", "rack_slurm_exporter", "rack_grafana"):
        assert not document["all"]["children"][name].get("hosts")


@pytest.mark.parametrize(
    ("declared", "host"),
    [
        ({"controllers": "ctl[01-03]", "monitoring": {}}, "ctl03"),
        ({"controllers": "ctl01", "monitoring": {"host": "login01"}, "login": "login01"}, "login01"),
        ({"controllers": None, "monitoring": {}, "login": "login[01-02]"}, "login01"),
    ],
)
def test_monitoring_runs_on_the_declared_host_or_the_last_controller(declared, host):
    assert plan_rack(declared_site(**declared)).monitoring == host
