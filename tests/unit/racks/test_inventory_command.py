"""`gpufleet inventory` as a user runs it, on the environments that ship."""

from __future__ import annotations

import json

import pytest
import yaml

from gpufleet.cli.main import main
from tests.conftest import Checkout, make_checkout
from tests.unit.racks.test_inventory import ansible_list


@pytest.fixture
def shipped(tmp_path) -> Checkout:
    return make_checkout(tmp_path)


@pytest.fixture
def run(shipped, monkeypatch, capsys):
    monkeypatch.chdir(shipped.root)
    monkeypatch.setenv("HOME", shipped.env["HOME"])

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("environment", "gpu_hosts", "others"), [("sandbox", 2, 2), ("dev", 4, 2), ("prod", 127, 4)]
)
def test_ansible_accepts_the_inventory_of_every_environment(run, tmp_path, environment, gpu_hosts, others):
    code, text, _ = run("inventory", environment)
    assert code == 0
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    listed = ansible_list(path)
    assert len(listed["role_gpu"]["hosts"]) == gpu_hosts
    assert len(listed["_meta"]["hostvars"]) == gpu_hosts + others


def test_host_ranges_are_exact(run):
    _, text, _ = run("inventory", "prod")
    hosts = list(yaml.safe_load(text)["all"]["children"]["role_gpu"]["hosts"])
    assert hosts == [f"dgx{number:03}" for number in range(1, 128)]


def test_written_file_equals_standard_output(run, shipped):
    _, text, _ = run("inventory", "sandbox")
    code, out, err = run("inventory", "sandbox", "--output", "made/inventory.yaml")
    assert (code, out) == (0, "")
    assert "4 hosts in" in err
    assert (shipped.root / "made" / "inventory.yaml").read_text() == text
    assert run("inventory", "sandbox", "--output", "made/inventory.yaml")[0] == 0


def test_json_is_one_object_with_the_hosts_of_every_group(run):
    code, out, _ = run("inventory", "sandbox", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["hosts"] == 4
    assert document["groups"]["role_gpu"] == ["dgx01", "dgx02"]
    assert document["file"] is None
    assert "nodes" in document["cloud_nodes_left_out"]
    assert document["inventory"]["all"]["vars"]["gpufleet_environment"] == "sandbox"


def test_stack_is_read_only_for_a_slurm_site_in_the_cloud(run):
    _, out, _ = run("inventory", "dev", "--json")
    assert json.loads(out)["cloud_nodes_left_out"] is None


def test_fleet_file_can_be_given_by_path(run, shipped):
    code, out, _ = run("inventory", str(shipped.root / "stacks" / "dev" / "fleet.yaml"))
    assert code == 0
    assert "dev01" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("nowhere",), "nowhere"), (("sandbox", "--output", "/proc/no/where.yaml"), "cannot be written")],
)
def test_bad_input_exits_2_with_its_remedy(run, arguments, says):
    code, out, err = run("inventory", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert "fix:" in err


def test_inventory_has_no_secret(run, shipped):
    """Nothing in it is secret, so nothing in it may look like one."""
    _, text, _ = run("inventory", "prod")
    for word in ("password", "secret", "token", "private_key", "BEGIN "):
        assert word not in text.lower()


def test_stack_outputs_add_the_running_nodes(run, monkeypatch):
    node = {
        "site": "usw2",
        "node_group": "burst",
        "name": "ip-10-11-0-4",
        "address": "10.11.0.4",
        "user": "ubuntu",
    }
    from gpufleet.engine import select

    class Stack:
        def outputs(self, request):
            assert request.stack == "sandbox"
            return {"nodes": [node]}

    monkeypatch.setattr(select, "select_engine", lambda *args, **kwargs: Stack())
    _, out, err = run("inventory", "sandbox")
    site = yaml.safe_load(out)["all"]["children"]["site_usw2"]
    assert site["hosts"]["ip-10-11-0-4"]["ansible_host"] == "10.11.0.4"
    assert "left out" not in err
