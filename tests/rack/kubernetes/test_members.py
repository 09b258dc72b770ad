"""A member of the control plane is lost and replaced by a new host while a client writes and reads."""

from __future__ import annotations

import pytest

from tests.rack.kubernetes.client import lost, writing
from tests.rack.kubernetes.cluster import MEMBERS, NODES, PREPARED, Cluster
from tests.rack.site import Site

PAUSE_S = 60.0
"""The longest pause of a client: a request to a lost member ends after 5 s, and its address moves."""


# The first one is that which `kubeadm init` created.
@pytest.mark.parametrize(
    "member", [MEMBERS[0], *(pytest.param(name, marks=pytest.mark.whole_life) for name in MEMBERS[1:])]
)
def test_lost_member_is_replaced_without_a_lost_write(cluster: Cluster, member: str) -> None:
    other = next(name for name in MEMBERS if name != member)
    before = cluster.etcd_members(on=other)
    with writing(cluster) as written:
        cluster.site.lab.rack.stop(member, force=True)
        cluster.site.lab.reset(member, name=PREPARED)
        result = cluster.configure()
    assert result["failed_hosts"] == []
    assert (member, "kubernetes_control_plane", "Join the cluster") in Site.changes(result)
    assert written.not_read == lost(cluster, written) == set()
    assert written.pause_s < PAUSE_S
    after = cluster.etcd_members(on=other)
    assert after.keys() == before.keys() == set(MEMBERS)
    assert {name for name in MEMBERS if after[name] != before[name]} == {member}
    cluster.wait("all nodes are ready", lambda: cluster.ready_nodes() == {*MEMBERS, *NODES})
