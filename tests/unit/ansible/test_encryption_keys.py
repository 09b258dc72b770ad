"""The key that encrypts secrets in etcd is replaced on two members, with real API servers and real etcd."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.lab.kubernetes import kubeconfig
from gpufleet.lab.kubernetes.rest import Rest
from tests.kube.build import kube_apiserver
from tests.kube.certificates import signing_key
from tests.kube.members import FILES, PATH, Kubelet, Member, make_members
from tests.unit.ansible.collection.conftest import load
from tests.unit.ansible.rendering import SECRETS, Site
from tests.unit.ansible.test_kubernetes_files import FOLDER, fleet

pytestmark = [pytest.mark.xdist_group("kube"), pytest.mark.daemon]
OLD = SECRETS["kubernetes_control_plane_encryption_key"]
NEW = base64.b64encode(b"n" * 32).decode()
PROGRAM = f"""\
#!/bin/sh
PATH={{bin}}:{PATH} exec {sys.executable} {FILES}/kubernetes-certificates "$@"
"""
SECRETS_API = "/api/v1/namespaces/default/secrets"


def server_command(member: Member) -> list[str]:
    """The API server of a member on its own etcd."""
    keys, accounts = member.pki / "etcd", member.authority.folder / "accounts.key"
    return [
        str(kube_apiserver()),
        f"--secure-port={member.secure.rpartition(':')[2]}",
        f"--tls-cert-file={member.pki}/apiserver.crt",
        f"--tls-private-key-file={member.pki}/apiserver.key",
        f"--client-ca-file={member.pki}/ca.crt",
        f"--etcd-servers={member.client}",
        f"--etcd-cafile={keys}/ca.crt",
        f"--etcd-certfile={keys}/server.crt",
        f"--etcd-keyfile={keys}/server.key",
        f"--encryption-provider-config={member.kubernetes}/gpufleet/encryption.yaml",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=198.51.100.0/24",
        "--advertise-address=192.0.2.1",
        "--endpoint-reconciler-type=none",
        "--authorization-mode=Node,RBAC",
        "--disable-admission-plugins=ServiceAccount",
        f"--cert-dir={member.folder}",
    ]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    made = make_members(tmp_path / "members", ["ctl01", "ctl02"])
    signing_key(tmp_path / "members" / "authority" / "accounts.key")
    (tmp_path / "site").mkdir()
    rendered = Site(fleet("1.35"), tmp_path / "site").rendered(
        "ctl01", "kubernetes_control_plane", "ubuntu_24_04"
    )
    for member in made:
        member.write_manifests(",".join(f"{item.name}={item.peer}" for item in made), server_command(member))
        (member.kubernetes / "gpufleet").mkdir()
        (member.kubernetes / "gpufleet/encryption.yaml").write_text(
            rendered[f"{FOLDER}/encryption.yaml"].text
        )
        certificate, key = member.authority.issue("admin", "admin", "system:masters")
        for path in (certificate, key, member.pki / "ca.crt"):
            shutil.copy(path, member.kubernetes)
        config = {
            "clusters": [
                {"name": "c", "cluster": {"server": member.secure, "certificate-authority": "ca.crt"}}
            ],
            "users": [{"name": "u", "user": {"client-certificate": "admin.crt", "client-key": "admin.key"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (member.kubernetes / "admin.conf").write_text(json.dumps(config))
        member.program("restart", PROGRAM.format(bin=member.folder / "bin"))
    kubelet = Kubelet(made)
    kubelet.start()
    yield made
    kubelet.stop()


def take(member: Member, state: str, *keys: str, **more: Any) -> dict[str, Any]:
    """A step of the module on a member."""
    params = {"state": state, "keys": keys or [NEW, OLD], "server": member.secure, "timeout_s": 180}
    params |= {"kubernetes": str(member.kubernetes), "program": str(member.folder / "bin" / "restart")}
    found: dict[str, Any] = load("kubernetes_encryption").work(params | more, False)
    return found


def rest(member: Member) -> Rest:
    return Rest(kubeconfig.read(str(member.kubernetes / "admin.conf")))


def test_key_is_replaced_while_each_member_reads_what_the_others_write(members: list[Member]) -> None:
    first, second = members
    written: set[str] = set()

    def write_and_read(when: str) -> None:
        """Each member writes a secret; each reads all."""
        for member in members:
            name = f"{when}-{member.name}"
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name},
                "stringData": {"a": name},
            }
            rest(member).call("POST", SECRETS_API, body)
            written.add(name)
        for member in members:
            for name in written:
                found = rest(member).call("GET", f"{SECRETS_API}/{name}")
                assert base64.b64decode(found["data"]["a"]).decode() == name

    for member in members:
        assert take(member, "ready") == {"changed": False, "did": [], "problem": ""}
    write_and_read("before")
    # A new key never replaces the only copy of the old one.
    assert "must not replace the only copy" in take(first, "same", NEW, "")["problem"]
    assert "must not replace the only copy" in take(first, "added", NEW, "")["problem"]
    assert "the rotation has not ended" in take(first, "same")["problem"]
    for member in members:
        assert take(member, "added")["did"] == ["added the new key"]
        write_and_read(f"added-{member.name}")
    assert take(first, "first")["problem"] == ""
    write_and_read("first-ctl01")
    # A run that was killed between the file and the restart. The next one begins with the first step again.
    assert "failed" in take(second, "first", program="/bin/false")["problem"]
    assert [take(member, "added")["changed"] for member in members] == [False, True]
    assert [take(member, "first")["changed"] for member in members] == [False, False]
    write_and_read("first-ctl02")
    # The previous key comes back if a secret still needs it.
    assert "The API server is not ready" in take(first, "only", timeout_s=45)["problem"]
    write_and_read("back")
    assert take(first, "rewritten")["did"] == [f"wrote {len(written)} secrets again"]
    for member in members:
        assert take(member, "only")["did"] == ["removed the previous key"]
        write_and_read(f"only-{member.name}")
    for member in members:
        text = (member.kubernetes / "gpufleet/encryption.yaml").read_text()
        assert NEW in text and OLD not in text
        assert take(member, "same", NEW, "")["problem"] == ""
        for state in ("added", "first", "rewritten", "only"):
            assert take(member, state) == {"changed": False, "did": [], "problem": ""}
