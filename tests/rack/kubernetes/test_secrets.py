"""Keys and certificates of the running cluster are replaced while a client writes and reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rack.kubernetes.client import lost, writing
from tests.rack.kubernetes.cluster import KEY, MEMBERS, NODES, Cluster, new_key
from tests.rack.operations.operating import operate
from tests.rack.site import Site

pytestmark = pytest.mark.whole_life
PREVIOUS = KEY.replace("ENCRYPTION", "PREVIOUS_ENCRYPTION")
# The unit's own command line, with a limit that every certificate is within.
RENEW = """\
$(systemctl cat gpufleet-kubernetes-certificates.service |
  sed -n 's/^ExecStart=\\(.*\\)--before-days [0-9]*/\\1--before-days 400/p') 2>&1
"""
SERVED = """\
echo | openssl s_client -connect {address}:6443 2>/dev/null | openssl x509 -noout -serial
openssl x509 -noout -serial -in /etc/kubernetes/pki/etcd/server.crt
"""


def test_encryption_key_is_replaced(cluster: Cluster) -> None:
    cluster.kubectl("create", "secret", "generic", "kept", "--from-literal=word=precious")
    stored = cluster.etcdctl("get", "/registry/secrets/default/kept")
    assert "k8s:enc:secretbox:" in stored and "precious" not in stored
    secrets = cluster.site.secrets
    secrets[PREVIOUS], secrets[KEY] = secrets[KEY], new_key()
    with writing(cluster) as written:
        result = operate(cluster.site, "rotate_encryption_key")
    assert result["states"] == dict.fromkeys(MEMBERS, "done")
    assert written.not_read == lost(cluster, written) == set()
    again = cluster.etcdctl("get", "/registry/secrets/default/kept")
    assert "k8s:enc:secretbox:" in again and again != stored
    # Nothing needs the former key.
    del secrets[PREVIOUS]
    assert Site.changes(cluster.configure()) == set()
    for member in MEMBERS:
        path = "jsonpath={.data.word}"
        assert cluster.kubectl("get", "secret", "kept", "-o", path, on=member) == "cHJlY2lvdXM="


def test_certificates_are_renewed_on_one_member_at_a_time(cluster: Cluster) -> None:
    """All three timers fire at once."""
    site = cluster.site

    def served(member: str) -> list[str]:
        address = site.lab.rack.site.host(member).ip
        return site.lab.sh(member, SERVED.format(address=address)).split()

    before = {member: served(member) for member in MEMBERS}
    with writing(cluster) as written, ThreadPoolExecutor(len(MEMBERS)) as pool:
        reported = list(pool.map(lambda member: site.lab.sh(member, RENEW, timeout_s=900), MEMBERS))
    assert [text.startswith("renewed, and restarted etcd, kube-apiserver") for text in reported] == [
        True
    ] * 3, reported
    assert written.not_read == lost(cluster, written) == set()
    after = {member: served(member) for member in MEMBERS}
    assert all(not set(before[member]) & set(after[member]) for member in MEMBERS)
    cluster.wait("all nodes are ready", lambda: cluster.ready_nodes() == {*MEMBERS, *NODES})
