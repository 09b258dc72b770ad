"""The inventory, verified with ansible-inventory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.racks.inventory import build_inventory, group_name
from gpufleet.racks.inventory_text import group_members, render

NODE = {"site": "usw2", "node_group": "overflow", "name": "overflow-1", "address": "10.41.0.9"}


def ansible_list(path: Path) -> dict[str, Any]:
    """Output of `ansible-inventory --list` for a file; any warning fails the test."""
    tool = Path(sys.executable).with_name("ansible-inventory")
    done = subprocess.run(
        [tool, "-i", path, "--list"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(path.parent), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def listed(tmp_path, make_fleet, make_rack, make_cloud_site, catalog):
    path = tmp_path / "inventory.yaml"
    plan = make_fleet(make_rack(), cloud=(make_cloud_site(),))
    path.write_text(render(build_inventory(plan, catalog, {"nodes": [NODE | {"user": "ubuntu"}]})))
    return ansible_list(path)


def test_ansible_inventory_sees_every_host_in_exactly_its_groups(listed):
    groups = {name: body.get("hosts", []) for name, body in listed.items() if name != "_meta"}
    nodes = ["dgx001", "dgx002", "dgx003"]
    assert groups["site_dc1"] == [*nodes, "ctl01"]
    assert groups["role_gpu"] == [*nodes, "overflow-1"]
    assert groups["role_controller"] == ["ctl01"]
    assert groups["system_dgx_h100"] == nodes
    assert groups["fabric_infiniband"] == nodes
    assert groups["fabric_efa"] == ["overflow-1"]
    assert groups["scheduler_slurm"] == [*nodes, "ctl01", "overflow-1"]
    assert groups["node_group_usw2_overflow"] == ["overflow-1"]
    assert listed["onprem"]["children"] == ["site_dc1"]
    assert listed["cloud"]["children"] == ["site_usw2"]
    assert "role_login" not in groups
    assert set(listed["_meta"]["hostvars"]) == {*nodes, "ctl01", "overflow-1"}


def test_host_has_its_address_expectations_and_site(listed):
    host = listed["_meta"]["hostvars"]["dgx002"]
    assert host["ansible_host"] == "dgx002.dc1.example.com"
    assert (host["ansible_port"], host["ansible_user"]) == (2222, "ubuntu")
    assert host["gpufleet_bmc_address"] == "bmc002.dc1.example.com"
    assert host["gpufleet_gpus_per_node"] == 8
    assert host["gpufleet_fabric"] == {"kind": "infiniband", "speed": "ndr", "topology": "rail-optimized"}
    assert host["gpufleet_mounts"] == [
        {"kind": "nfs", "source": "nas01:/export/home", "path": "/shared/home"}
    ]
    controller = listed["_meta"]["hostvars"]["ctl01"]
    assert "gpufleet_bmc_address" not in controller
    assert "gpufleet_gpus_per_node" not in controller


def test_racks_and_cloud_nodes_get_the_versions_of_one_lock(listed, catalog):
    hostvars = listed["_meta"]["hostvars"]
    lock = catalog.lock("2026.11")
    assert hostvars["dgx001"]["gpufleet_software"] == hostvars["overflow-1"]["gpufleet_software"]
    software = hostvars["dgx001"]["gpufleet_software"]
    assert software["driver"] == lock.driver
    assert software["fabric_manager"] == lock.driver
    assert software["nccl"] == lock.nccl
    assert "sources" not in software


def test_same_plan_gives_the_same_bytes(make_fleet, make_rack, catalog):
    first, second = (
        render(build_inventory(make_fleet(make_rack(), tags=tags), catalog))
        for tags in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    )
    assert first == second


def test_missing_outputs_give_empty_cloud_groups(make_fleet, make_cloud_site, catalog):
    groups = group_members(build_inventory(make_fleet(cloud=(make_cloud_site(),)), catalog))
    assert groups["all"] == []
    assert groups["node_group_usw2_overflow"] == []


def test_kubernetes_site_in_the_cloud_is_not_configured_by_ansible(make_fleet, make_cloud_site, catalog):
    document = build_inventory(make_fleet(cloud=(make_cloud_site("kubernetes"),)), catalog)
    assert document["all"]["children"] == {}


@pytest.mark.parametrize("text", ["on", "no", "1:30", "2026.10", "~", "0x10", "a: b #c"])
def test_ambiguous_yaml_text_stays_text(text, tmp_path, make_fleet, make_rack, catalog):
    path = tmp_path / "inventory.yaml"
    path.write_text(render(build_inventory(make_fleet(make_rack(), tags={"x": text}), catalog)))
    assert yaml.safe_load(path.read_text())["all"]["vars"]["gpufleet_tags"] == {"x": text}


def test_template_in_a_tag_stays_text(tmp_path, make_fleet, make_rack, catalog):
    path = tmp_path / "inventory.yaml"
    path.write_text(render(build_inventory(make_fleet(make_rack(), tags={"x": "{{ 6 * 7 }}"}), catalog)))
    assert "!unsafe" in path.read_text()
    tags = ansible_list(path)["_meta"]["hostvars"]["dgx001"]["gpufleet_tags"]
    assert tags["x"] in ("{{ 6 * 7 }}", {"__ansible_unsafe": "{{ 6 * 7 }}"})


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({**NODE, "node_group": "gone"}, "no Slurm node group"),
        ({**NODE, "site": "use1"}, "no Slurm node group"),
        ({key: NODE[key] for key in ("site", "name", "node_group")}, "lacks 'address'"),
        ("overflow-1", "lacks 'site'"),
    ],
)
def test_output_that_does_not_match_the_plan_is_refused(node, says, make_fleet, make_cloud_site, catalog):
    with pytest.raises(InputError, match=says) as refused:
        build_inventory(make_fleet(cloud=(make_cloud_site(),)), catalog, {"nodes": [node]})
    assert refused.value.remedy


def test_duplicate_host_name_is_refused(make_fleet, make_rack, catalog):
    with pytest.raises(InputError, match="'dgx001' is in the inventory twice"):
        build_inventory(make_fleet(make_rack(), make_rack(site="dc2")), catalog)


def test_sites_with_the_same_group_name_are_refused(make_fleet, make_rack, catalog):
    plan = make_fleet(make_rack(site="dc-1"), make_rack(site="dc_1", hosts=()))
    with pytest.raises(InputError, match="both Ansible group 'site_dc_1'"):
        build_inventory(plan, catalog)


def test_host_named_like_a_built_in_group_is_refused(make_fleet, make_rack, make_hosts, catalog):
    from msgspec.structs import replace

    with pytest.raises(InputError, match="built-in Ansible group"):
        build_inventory(make_fleet(make_rack(hosts=(replace(make_hosts()[0], name="all"),))), catalog)


def test_group_names_are_valid_for_ansible():
    assert group_name("system", "dgx-h100") == "system_dgx_h100"


def test_file_is_written_atomically_and_only_when_it_changes(tmp_path):
    path = tmp_path / "new" / "inventory.yaml"
    assert write_atomically(path, "a\n") is True
    assert write_atomically(path, "a\n") is False
    path.write_bytes(b"\xff\x00")  # a binary file is replaced too
    assert write_atomically(path, "a\n") is True
    assert path.read_text() == "a\n"
    assert [item.name for item in path.parent.iterdir()] == ["inventory.yaml"]


def test_unwritable_path_is_an_error_without_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "inventory.yaml", "a\n")


def test_slurm_sites_have_the_supported_upgrade_paths(listed, catalog):
    host = listed["_meta"]["hostvars"]["ctl01"]
    assert host["gpufleet_slurm_upgrades"]["24.11"] == ["24.05", "23.11", "23.02"]
    assert host["gpufleet_slurm_upgrades"].keys() == catalog.slurm_releases.keys()
