"""Derived from a rack site: Slurm's defaults, units of the topology, batches."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan.rack import plan_rack
from gpufleet.plan.rack_models import BackupTargetPlan, MonitoringPlan, SlurmPlan
from gpufleet.plan.rack_monitoring import monitoring_host
from gpufleet.spec.models import OnPremSite


def site(**changes: Any) -> OnPremSite:
    fields: dict[str, Any] = {
        "site": "dc1",
        "system": "dgx-h100",
        "nodes": "dgx[001-064]",
        "controllers": "ctl[01-02]",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
    }
    return OnPremSite.model_validate(fields | changes)


def slurm(**changes: Any) -> SlurmPlan:
    plan = plan_rack(site(**changes)).slurm
    assert plan is not None
    return plan


def test_teams_have_accounts_with_limits_and_a_qos_per_priority() -> None:
    plan = slurm(
        teams=[{"name": "a", "gpus": 8, "priority": "high"}, {"name": "b", "gpus": 4}],
        users=[{"name": "ada", "uid": 2001, "teams": ["a"]}, {"name": "bob", "uid": 2002}],
    )
    assert [(item.name, item.gpus, item.qos, item.users) for item in plan.accounts] == [
        ("a", 8, "high", ("ada",)),
        ("b", 4, "normal", ()),
    ]
    assert [(item.name, item.preempts) for item in plan.qos_settings] == [
        ("low", ()),
        ("normal", ("low",)),
        ("high", ("low", "normal")),
    ]


def test_cluster_is_called_as_declared_or_as_the_site() -> None:
    assert slurm().cluster == "dc1"
    assert slurm(slurm={"cluster": "hopper"}).cluster == "hopper"


def test_memory_for_the_system_is_in_mib() -> None:
    assert slurm(slurm={"reserved_memory_gib": 16}).reserved_memory_mib == 16_384


def test_no_qos_preempts_with_preemption_disabled() -> None:
    assert all(item.preempts == () for item in slurm(slurm={"preemption": "none"}).qos_settings)


def test_declared_qos_replaces_the_default() -> None:
    plan = slurm(slurm={"qos": [{"name": "high", "priority": 7, "max_time": "90 s"}]})
    high = next(item for item in plan.qos_settings if item.name == "high")
    assert (high.priority, high.max_minutes, high.preempts) == (7, 2, ())


def test_default_partition_has_all_nodes_unless_declared() -> None:
    (only,) = slurm().partitions
    assert (only.name, only.nodes, only.default, only.max_minutes) == ("gpu", 64, True, None)
    plan = slurm(slurm={"partitions": [{"name": "a", "nodes": "dgx001"}, {"name": "b", "default": True}]})
    assert [(item.name, item.default, item.nodes) for item in plan.partitions] == [
        ("a", False, 1),
        ("b", True, 64),
    ]


def test_nodes_with_the_same_leaves_are_one_unit() -> None:
    leaves = [
        {
            "name": f"su{unit}-leaf{rail}",
            "rail": rail,
            "nodes": f"dgx[{32 * unit + 1:03}-{32 * unit + 32:03}]",
        }
        for unit in range(2)
        for rail in range(8)
    ]
    switches = slurm(fabric={"kind": "infiniband", "speed": "ndr", "switches": leaves}).switches
    assert [(item.name, len(item.hosts)) for item in switches] == [
        ("unit-su0-leaf0", 32),
        ("unit-su1-leaf0", 32),
        ("fabric", 0),
    ]
    assert switches[-1].switches == ("unit-su0-leaf0", "unit-su1-leaf0")
    assert slurm(fabric={"kind": "infiniband", "speed": "ndr", "switches": leaves}).units == 2
    placed = [node for item in switches for node in item.hosts]
    assert len(placed) == len(set(placed)) == 64


def test_topology_needs_leaves_and_a_top_needs_several() -> None:
    assert slurm().switches == ()
    one = [{"name": "leaf", "nodes": "dgx[001-064]"}]
    assert [
        item.name for item in slurm(fabric={"kind": "infiniband", "speed": "ndr", "switches": one}).switches
    ] == ["leaf"]


def test_nodes_without_a_leaf_are_placed() -> None:
    one = [{"name": "leaf", "nodes": "dgx[001-063]"}]
    switches = slurm(fabric={"kind": "infiniband", "speed": "ndr", "switches": one}).switches
    assert [(item.name, item.hosts) for item in switches if len(item.hosts) == 1] == [
        ("unit-unknown", ("dgx064",))
    ]
    # A check refuses a node that the site does not have.
    more = [{"name": "leaf", "nodes": "dgx[001-065]"}]
    (leaf,) = slurm(fabric={"kind": "infiniband", "speed": "ndr", "switches": more}).switches
    assert len(leaf.hosts) == 64


@pytest.mark.parametrize(
    ("nodes", "batch", "hosts"), [("dgx[001-064]", "25%", 16), ("dgx01", "25%", 1), ("dgx[1-3]", "100%", 3)]
)
def test_batch_has_at_least_one_node_and_at_most_all(nodes: str, batch: str, hosts: int) -> None:
    assert plan_rack(site(nodes=nodes, reboot={"batch": batch})).reboot_batch == hosts


def test_declared_address_replaces_the_name() -> None:
    from gpufleet.plan.onprem import plan_hosts

    declared = site(addresses={"ctl01": "10.60.0.11"}, ssh={"domain": "dc1.example.com"})
    addresses = {host.name: host.address for host in plan_hosts(declared)}
    assert addresses["ctl01"] == "10.60.0.11"
    assert addresses["ctl02"] == "ctl02.dc1.example.com"


def test_roots_of_the_fat_tree_are_the_highest_switches_with_a_guid() -> None:
    switches = [
        {"name": "l", "nodes": "dgx001", "guid": "0x0000000000000001"},
        {"name": "s", "tier": "spine", "guid": "0x0000000000000002"},
        {"name": "c", "tier": "core"},
    ]
    fabric = {"kind": "infiniband", "speed": "ndr", "switches": switches}
    assert plan_rack(site(fabric=fabric)).root_guids == ("0x0000000000000002",)


def test_kubernetes_site_has_no_slurm() -> None:
    assert plan_rack(site(scheduler="kubernetes")).slurm is None


def test_several_controllers_keep_their_state_on_the_first_nfs_file_system() -> None:
    storage = [
        {"name": "fast", "kind": "lustre", "source": "mds01@o2ib:/s", "mount": "/shared/s"},
        {"name": "home", "kind": "nfs", "source": "nas01:/home", "mount": "/shared/home"},
    ]
    assert slurm(storage=storage).state == "nas01:/home"
    assert slurm(storage=storage, slurm={"state": "nas02:/slurm"}).state == "nas02:/slurm"
    assert slurm().state is None


def test_single_controller_keeps_its_state_on_its_own_disk_by_default() -> None:
    storage = [{"name": "home", "kind": "nfs", "source": "nas01:/home", "mount": "/shared/home"}]
    assert slurm(controllers="ctl01", storage=storage).state is None
    assert slurm(controllers="ctl01", slurm={"state": "nas02:/slurm"}).state == "nas02:/slurm"


@pytest.mark.parametrize(
    ("system", "declared", "model"),
    [
        ("dgx-h100", {}, "DGXH100"),
        ("dgx-h100", {"model": "DGX H100 rev 2"}, "DGX H100 rev 2"),
        ("hgx-h100", {}, None),
    ],
)
def test_model_of_controllers_follows_from_the_system_unless_declared(
    system: str, declared: dict[str, str], model: str | None
) -> None:
    management = {"protocol": "redfish", "user": "admin", **declared}
    plan = plan_rack(site(system=system, management=management)).management_settings
    assert plan is not None
    assert plan.model == model


@pytest.mark.parametrize(
    ("sharing", "kind", "replicas"),
    [
        (None, "none", 1),
        ({"mps": {"replicas": 4}}, "mps", 4),
        ({"time_slicing": {"replicas": 2}}, "time_slicing", 2),
    ],
)
def test_each_gpu_is_divided_by_the_replicas_of_its_sharing(
    sharing: dict[str, Any] | None, kind: str, replicas: int
) -> None:
    group = {"name": "g", "nodes": "dgx001", "gpu_sharing": sharing}
    kubernetes = {"version": "1.35", "endpoint": "10.0.0.1", "node_groups": [group]}
    plan = plan_rack(site(scheduler="kubernetes", kubernetes=kubernetes, controllers="ctl[01-03]")).kubernetes
    assert plan is not None
    (found,) = [each for each in plan.node_groups if each.name == "g"]
    assert (found.sharing, found.replicas) == (kind, replicas)


@pytest.mark.parametrize(
    ("endpoint", "number"), [("10.0.0.1", 12), ("10.0.0.2", 13), ("k8s.example.com", 1), (None, 1)]
)
def test_neighbouring_virtual_addresses_have_different_router_ids(endpoint: str | None, number: int) -> None:
    kubernetes = {"version": "1.35", "endpoint": endpoint}
    plan = plan_rack(site(scheduler="kubernetes", kubernetes=kubernetes, controllers="ctl[01-03]")).kubernetes
    assert plan is not None
    assert plan.router_id == number


def test_rails_are_those_of_the_site_else_those_of_its_system() -> None:
    fabric = {"kind": "infiniband", "speed": "ndr"}
    assert plan_rack(site(), ("mlx5_0",)).rails == ("mlx5_0",)
    assert plan_rack(site(fabric=fabric | {"rails": ["mlx5_7"]}), ("mlx5_0",)).rails == ("mlx5_7",)
    assert plan_rack(site()).rails == ()


def test_drives_of_nodes_are_used_as_declared() -> None:
    def drives(**changes: Any) -> tuple[str | None, str | None, int | None]:
        found = plan_rack(site(**changes))
        return found.local_nvme, found.local_nvme_cache, found.local_nvme_drives

    assert drives(local_nvme={"cache": "/raid/cache", "drives": 8}) == ("/raid", "/raid/cache", 8)
    assert drives() == (None, None, None)


def test_group_of_a_user_has_the_number_of_the_user_unless_declared() -> None:
    found = plan_rack(site(users=[{"name": "ada", "uid": 2001}, {"name": "bob", "uid": 2002, "gid": 3001}]))
    assert [(each.name, each.uid, each.gid) for each in found.people] == [
        ("ada", 2001, 2001),
        ("bob", 2002, 3001),
    ]


@pytest.mark.parametrize(
    ("declared", "target"),
    [
        (None, None),
        (
            {
                "s3": {
                    "url": "s3://backups/dc1",
                    "endpoint": "https://s3.example.com",
                    "region": "eu-central-1",
                }
            },
            BackupTargetPlan(
                "s3", "s3://backups/dc1", "https://s3.example.com", "eu-central-1", None, None, 28
            ),
        ),
        (
            {"nfs": {"source": "nas01:/backups"}, "keep": 0},
            BackupTargetPlan("nfs", "nas01:/backups", None, None, None, None, 0),
        ),
        (
            {"rsync": {"to": "backup@vault.example.com:/srv", "port": 2222, "host_key": "ssh-ed25519 AAAA"}},
            BackupTargetPlan(
                "rsync", "backup@vault.example.com:/srv", None, None, 2222, "ssh-ed25519 AAAA", 28
            ),
        ),
    ],
)
def test_backups_are_copied_to_the_declared_store(
    declared: dict[str, Any] | None, target: BackupTargetPlan | None
) -> None:
    assert plan_rack(site(backups=declared)).backups == target


def test_host_of_monitoring_and_protocol_of_management_are_known_where_they_are_declared() -> None:
    found = plan_rack(site(monitoring={"host": "mon01"}, management={"user": "admin", "protocol": "ipmi"}))
    assert (found.monitoring, found.management) == ("mon01", "ipmi")
    plain = plan_rack(site())
    assert (plain.monitoring, plain.management) == (None, None)


RECEIVERS: dict[str, Any] = {
    "webhook": {"url": "https://hooks.example.com/gpu", "token": True},
    "slack": {"channel": "#gpu"},
    "email": {
        "to": ["ops@example.com"],
        "sender": "gpufleet@example.com",
        "server": "mail.example.com:587",
        "username": "gpufleet",
    },
}


def test_monitoring_has_the_receivers_that_are_declared() -> None:
    found = monitoring(alerts=RECEIVERS)
    assert (found.webhook_url, found.webhook_token) == ("https://hooks.example.com/gpu", True)
    assert (found.email_to, found.email_sender) == (("ops@example.com",), "gpufleet@example.com")
    assert (found.email_server, found.email_user) == ("mail.example.com:587", "gpufleet")
    plain = monitoring(alerts={"webhook": {"url": "https://hooks.example.com/gpu"}})
    assert plain.webhook_token is False
    assert found.slack_channel == "#gpu"
    none = monitoring()
    assert (none.webhook_url, none.webhook_token, none.email_to, none.email_user) == (None, False, (), None)
    assert none.slack_channel is None


def test_metrics_are_sent_and_kept_as_declared() -> None:
    write = {"url": "https://metrics.example.com/api/v1/write", "username": "dc1"}
    found = monitoring(keeps={"retention_size": "200 GiB", "remote_write": write})
    assert (found.retention_gib, found.remote_write_url, found.remote_write_user) == (
        200,
        write["url"],
        "dc1",
    )
    none = monitoring()
    assert (none.retention_gib, none.remote_write_url, none.remote_write_user) == (None, None, None)


def test_monitoring_has_the_power_and_the_hourly_cost_of_the_site() -> None:
    found = monitoring(
        power={"per_rack": "40 kW", "pue": 1.25, "price": "0.11 USD/kWh"},
        ownership={"acquisition": "262800 USD", "lifetime": "5 y"},
    )
    figures = (found.rack_kw, found.pue, found.energy_price, found.node_hour_cost)
    assert figures == (40, Decimal("1.25"), Decimal("0.11"), 6)
    brief = monitoring(ownership={"acquisition": "100 USD", "lifetime": "30 min"})
    assert brief.node_hour_cost == 100, "at least an hour"
    none = monitoring()
    assert {none.rack_kw, none.pue, none.energy_price, none.node_hour_cost} == {None}


@pytest.mark.parametrize(
    ("changes", "host"),
    [
        ({"monitoring": {"host": "mon01"}}, "mon01"),
        ({"monitoring": {}}, "ctl02"),
        ({}, "ctl02"),
        ({"controllers": None, "login": "login[01-02]"}, "login01"),
        ({"controllers": None}, ""),
    ],
)
def test_monitoring_runs_on_the_declared_host_or_the_last_controller(
    changes: dict[str, Any], host: str
) -> None:
    assert monitoring_host(site(**changes)) == host


def monitoring(
    *, alerts: dict[str, Any] | None = None, keeps: dict[str, Any] | None = None, **changes: Any
) -> MonitoringPlan:
    declared = {"alerts": alerts or {}, **(keeps or {})}
    plan = plan_rack(site(monitoring=declared, **changes)).monitoring_settings
    assert plan is not None
    return plan
