"""Members of a control plane that answer, and the removal of one that was lost."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import control_plane
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

from tests.unit.ansible.collection.conftest import Programs, load

kubeadm = load("kubeadm")


@pytest.fixture
def open_port() -> Iterator[int]:
    """A port of 127.0.0.1 that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def members(**addresses: str) -> list[dict[str, Any]]:
    return [{"name": name, "address": address} for name, address in addresses.items()]


def test_only_members_that_accept_connections_answer(open_port: int) -> None:
    listed = members(ctl02="127.0.0.1", ctl03="127.0.0.2")
    assert control_plane.answering(listed, open_port) == ["ctl02"]


def test_second_cluster_is_refused_while_another_member_answers(
    tmp_path: Path, programs: Programs, open_port: int
) -> None:
    programs.add("kubeadm", "exit 0")
    params = {"state": "begun", "config": "", "release": "", "upload": False, "timeout_s": 60}
    params |= {"others": members(ctl02="127.0.0.1"), "port": open_port}
    with pytest.raises(RefusalError, match="ctl02 already have a control plane"):
        kubeadm.work(params, False, tmp_path)
    assert programs.called() == []


def test_member_with_data_and_no_kubelet_is_refused_before_anything_is_removed(tmp_path: Path) -> None:
    params = {"state": "known", "config": "", "release": "", "upload": False, "timeout_s": 60}
    params |= {"others": members(ctl02="127.0.0.1"), "port": 1}
    assert kubeadm.work(params, False, tmp_path)["running"] == []
    (tmp_path / "var/lib/etcd/member").mkdir(parents=True)
    with pytest.raises(RefusalError, match="parts of a control plane"):
        kubeadm.work(params, False, tmp_path)


def etcd(programs: Programs, *names: str, ill: str = "none") -> None:
    """crictl and kubectl of a member whose etcd has these members; the one on port `ill` does not answer."""
    listed = [
        {
            "ID": 0xA0 + number,
            "name": name,
            "peerURLs": [f"https://10.0.0.{number}:2380"],
            "clientURLs": [f"https://10.0.0.{number}:2379"],
        }
        for number, name in enumerate(names, start=1)
    ]
    programs.add(
        "crictl",
        f"""case "$*" in
  ps*) echo 0123abcd;;
  *"member list"*) echo '{json.dumps({"members": listed})}';;
  *"{ill}"*"endpoint health"*) echo unhealthy >&2; exit 1;;
esac""",
    )
    nodes = [{"metadata": {"name": name}} for name in names]
    programs.add("kubectl", f"""case "$*" in *"get nodes"*) echo '{json.dumps({"items": nodes})}';; esac""")


def test_member_and_node_of_a_lost_host_are_removed(programs: Programs) -> None:
    etcd(programs, "ctl01", "ctl02", "ctl03")
    assert control_plane.remove_lost("ctl01", "10.0.0.1") == [
        "removed the etcd member ctl01",
        "removed the node ctl01",
    ]
    assert any(line.endswith("etcdctl " + LOGIN + " member remove a1") for line in programs.called("crictl"))
    assert any(line.endswith("delete node ctl01") for line in programs.called("kubectl"))


def test_member_is_found_by_its_address_before_it_has_a_name(programs: Programs) -> None:
    etcd(programs, "ctl02", "")
    assert control_plane.remove_lost("ctl03", "10.0.0.2") == ["removed the etcd member https://10.0.0.2:2380"]


def test_new_host_removes_nothing(programs: Programs) -> None:
    etcd(programs, "ctl01")
    assert control_plane.remove_lost("ctl02", "10.0.0.2") == []
    assert not any("remove" in line or "delete" in line for line in programs.called())


def test_member_stays_if_the_others_would_have_no_quorum(programs: Programs) -> None:
    etcd(programs, "ctl01", "ctl02", "ctl03", ill="10.0.0.3:2379")
    with pytest.raises(RefusalError, match="only 1 of 2 are healthy"):
        control_plane.remove_lost("ctl01", "10.0.0.1")
    assert not any("remove" in line or "delete" in line for line in programs.called())


LOGIN = (
    "--endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt"
    " --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt"
    " --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)
