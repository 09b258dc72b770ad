"""Secrets that are removed from hosts which leave a site, and clusters that forget them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

VALUE = "a secret of the site"
NODE = {
    "etc/munge/munge.key": "munge key",
    "etc/kubernetes/kubelet.conf": "kubelet credentials",
    "etc/cni/net.d/calico-kubeconfig": "credentials of the network plugin",
    "etc/gpufleet/backup/s3-key": "keys of the remote target of backups",
    "etc/prometheus/alertmanager.yml": "secrets of Alertmanager",
    "var/lib/kubelet/pki/kubelet-client-current.pem": "kubelet credentials",
    "var/lib/kubelet/pods/1/volumes/token": "kubelet credentials",
}
MEMBER = {
    "etc/kubernetes/pki/ca.key": "keys of the cluster",
    "etc/kubernetes/pki/etcd/ca.key": "keys of the cluster",
    "etc/kubernetes/admin.conf": "administrator credentials",
    "etc/kubernetes/gpufleet/encryption.yaml": "keys that encrypt secrets",
    "var/lib/etcd/member/snap/db": "data of etcd",
    "var/backups/gpufleet/etcd/etcd-20260101T000000Z/pki.tar": "backups",
}
OTHERS = (
    "etc/kubernetes/gpufleet/kubeadm.yaml",
    "etc/munge/other",
    "home/ada/.ssh/id_ed25519",
    "var/lib/data",
)


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(VALUE)


def left(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and VALUE in path.read_text()
    }


@pytest.fixture
def module() -> ModuleType:
    return load("secrets_removed")


def test_node_keeps_no_secret_of_the_site_and_everything_else(
    module: ModuleType, programs: Programs, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    programs.add("crictl", "exit 0")
    write(root, *NODE, *OTHERS)
    # What is open elsewhere, or linked, is overwritten as well.
    (root / "other-name").hardlink_to(root / "etc/munge/munge.key")
    params = {"member": False, "folders": []}
    checked = module.work(params, True, root)
    assert left(root) == {*NODE, *OTHERS, "other-name"} and programs.called() == []
    done = module.work(params, False, root)
    assert done["removed"] == checked["removed"] and done["changed"]
    assert left(root) == set(OTHERS)
    assert set((root / "other-name").read_bytes()) == {0}
    assert programs.called("crictl") == ["crictl rmp --all --force"]
    for meaning in NODE.values():
        assert any(line.startswith(f"{meaning}: ") for line in done["removed"])
    assert module.work(params, False, root) == {
        **module.work(params, True, root),
        "changed": False,
        "removed": [],
    }


def test_member_loses_the_keys_of_the_cluster_only_with_the_explicit_word(
    module: ModuleType, programs: Programs, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    programs.add("crictl", "exit 0")
    write(root, *NODE, *MEMBER, *OTHERS)
    with pytest.raises(module.RefusalError, match="member=true"):
        module.work({"member": False, "folders": []}, False, root)
    assert left(root) == {*NODE, *MEMBER, *OTHERS}
    done = module.work({"member": True, "folders": ["/var/backups/gpufleet/etcd"]}, False, root)
    assert left(root) == set(OTHERS)
    assert (root / "var/lib/etcd").is_dir()  # it may be a mount point
    for meaning in MEMBER.values():
        assert any(line.startswith(f"{meaning}: ") for line in done["removed"])


def test_cluster_forgets_a_node_and_the_tokens_with_which_it_joins(programs: Programs) -> None:
    module = load("kubernetes_host_removed")

    def token(name: str, host: str) -> dict[str, Any]:
        described = base64.b64encode(f"gpufleet: {host} joins".encode()).decode()
        return {"metadata": {"name": f"bootstrap-token-{name}"}, "data": {"description": described}}

    secrets = json.dumps({"items": [token("aaaaaa", "dgx01"), token("bbbbbb", "dgx02")]})
    nodes = json.dumps({"items": [{"metadata": {"name": "dgx01"}}, {"metadata": {"name": "dgx02"}}]})
    programs.add(
        "kubectl", f"case \"$*\" in *'get secrets'*) echo '{secrets}';; *'get nodes'*) echo '{nodes}';; esac"
    )
    assert module.work({"name": "dgx01", "address": ""}, True)["changed"]
    assert not [line for line in programs.called() if "delete" in line]
    done = module.work({"name": "dgx01", "address": ""}, False)
    assert done["did"] == ["removed the node dgx01", "revoked the token aaaaaa"]
    deleted = [line for line in programs.called() if "delete" in line]
    assert len(deleted) == 2 and "dgx02" not in "".join(deleted) and "bbbbbb" not in "".join(deleted)
