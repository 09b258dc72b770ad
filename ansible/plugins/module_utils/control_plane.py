"""Members of a control plane: which of them answer, and the removal of a lost one."""

from __future__ import annotations

import json
import socket
from typing import Any

from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import kubectl, read_nodes, run
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

PEER_PORT = 2380
_CONNECT_S = 3.0
_KEYS = "/etc/kubernetes/pki/etcd"


def answering(members: list[dict[str, Any]], port: int) -> list[str]:
    """The names of members whose API server or etcd accepts connections on its own address."""
    return [
        str(member["name"])
        for member in members
        if any(_connects(str(member["address"]), number) for number in (port, PEER_PORT))
    ]


def _connects(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), _CONNECT_S):
            return True
    except OSError:
        return False


def remove_lost(name: str, address: str) -> list[str]:
    """Remove a lost member from etcd and its node from the cluster; what was removed.

    Its rebuilt host can join afterwards. Run on another member.
    Raises RefusalError if the rest would have no quorum.
    """
    did = []
    listed = json.loads(_etcdctl("member", "list", "-w", "json"))["members"]
    peer = f"https://{address}:{PEER_PORT}"
    lost = [item for item in listed if item.get("name") == name or peer in item.get("peerURLs", ())]
    if lost:
        rest = [item for item in listed if item not in lost]
        healthy = sum(_is_healthy(item) for item in rest)
        if healthy <= len(rest) // 2:
            raise RefusalError(
                f"etcd has {len(listed)} members, and of those other than {name} only {healthy} of"
                f" {len(rest)} are healthy: without {name} it would have no quorum. Repair the others first,"
                " or restore a snapshot: `gpufleet operate <env> restore`."
            )
        for item in lost:
            _etcdctl("member", "remove", f"{item['ID']:x}")
            did.append(f"removed the etcd member {item.get('name') or peer}")
    if name in read_nodes():
        kubectl("delete", "node", name)
        did.append(f"removed the node {name}")
    return did


def _is_healthy(member: dict[str, Any]) -> bool:
    endpoints = ",".join(member.get("clientURLs") or ())
    if not endpoints:
        return False
    try:
        _etcdctl("endpoint", "health", endpoints=endpoints)
    except RefusalError:
        return False
    return True


def _etcdctl(*words: str, endpoints: str = "https://127.0.0.1:2379") -> str:
    """Run etcdctl in this member's etcd container, which has it."""
    found = run("crictl", "ps", "--quiet", "--name", "^etcd$", "--state", "Running").split()
    if not found:
        raise RefusalError("etcd does not run on this member; see `journalctl -u kubelet`.")
    keys = (f"--cacert={_KEYS}/ca.crt", f"--cert={_KEYS}/healthcheck-client.crt")
    login = (f"--endpoints={endpoints}", *keys, f"--key={_KEYS}/healthcheck-client.key")
    return run("crictl", "exec", found[0], "etcdctl", *login, *words)
