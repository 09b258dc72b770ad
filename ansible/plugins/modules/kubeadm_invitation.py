#!/usr/bin/python
"""Join data of a cluster: a short-lived token and the hash of its certificate authority."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_invitation
short_description: Creates a short-lived token for hosts to join a Kubernetes cluster
description:
  - Creates a bootstrap token on a control plane member. With O(control_plane) it also uploads the control
    plane's certificates, encrypted, for two hours, as kubeadm does.
  - The result is secret; use C(no_log). In check mode it is a placeholder, and nothing is created.
options:
  control_plane:
    description: Whether control plane members can join, or only nodes.
    type: bool
    default: false
  member:
    description:
      - Name of the host that joins the control plane, with O(address). A member or node of that name, of a
        host that was lost, is removed first.
    type: str
    default: ""
  address:
    description: IP address of O(member).
    type: str
    default: ""
  host:
    description: The host that joins, for the description of the token.
    type: str
    default: a host
  revoke:
    description: A token to delete, instead of the creation of one.
    type: str
    default: ""
  minutes:
    description: Lifetime of the token.
    type: int
    default: 30
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Create a join token
  gpufleet.rack.kubeadm_invitation:
  delegate_to: ctl01
  register: kubernetes_node__invitation
  no_log: true
"""

RETURN = r"""
did:
  description: What was removed of a lost member.
  type: list
  returned: success
problem:
  description:
    - Why there is no token, or a token was not deleted; empty otherwise. A result, since C(no_log) hides
      failures.
  type: str
  returned: success
token:
  description: The bootstrap token.
  type: str
  returned: success
ca_hash:
  description: Hash of the cluster's certificate authority, which a joining host verifies.
  type: str
  returned: success
certificate_key:
  description: Key that the certificates are encrypted with; empty for nodes.
  type: str
  returned: success
"""

import hashlib
import json
import secrets
import string
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.control_plane import remove_lost
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    ADMIN,
    kubectl,
    purpose_of_token,
    run,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

_CHARACTERS = string.ascii_lowercase + string.digits
CHECKED = {
    "token": "abcdef.0123456789abcdef",
    "ca_hash": "sha256:" + "0" * 64,
    "certificate_key": "0" * 64,
    "problem": "",
}


def new_token() -> str:
    """A bootstrap token: a public ID of six characters and a secret of sixteen."""
    parts = ("".join(secrets.choice(_CHARACTERS) for _ in range(length)) for length in (6, 16))
    return ".".join(parts)


def authority_hash(certificate: Path) -> str:
    """The hash of the authority's public key, in the format of kubeadm."""
    key = run("openssl", "x509", "-in", str(certificate), "-noout", "-pubkey")
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        binary = Path(folder) / "key.der"
        run("openssl", "pkey", "-pubin", "-outform", "der", "-out", str(binary), stdin=key)
        return f"sha256:{hashlib.sha256(binary.read_bytes()).hexdigest()}"


def invite(control_plane: bool, minutes: int, root: Path = Path("/"), host: str = "a host") -> dict[str, Any]:
    """Create the token. The secrets are in a file that only root can read, and in no argument."""
    if not (root / ADMIN.lstrip("/")).is_file():
        raise RefusalError(
            "This host is not a control plane member (/etc/kubernetes/admin.conf is missing), so no host can"
            " join with it. Run kubernetes.yml without a limit, which initializes the cluster first."
        )
    token = new_token()
    key = secrets.token_hex(32) if control_plane else ""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        path = Path(folder) / "init.json"
        path.touch(mode=0o600)
        document: dict[str, Any] = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "bootstrapTokens": [
                {
                    "token": token,
                    "ttl": f"{minutes}m",
                    "usages": ["signing", "authentication"],
                    "groups": ["system:bootstrappers:kubeadm:default-node-token"],
                    "description": purpose_of_token(host),
                }
            ],
        }
        if key:
            document["certificateKey"] = key
        # Without a release kubeadm would look up the newest one on the internet.
        release = json.loads(run("kubeadm", "version", "-o", "json"))["clientVersion"]["gitVersion"]
        cluster = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": release,
        }
        path.write_text("\n---\n".join(json.dumps(part) for part in (document, cluster)))
        admin = str(root / ADMIN.lstrip("/"))
        try:
            run("kubeadm", "token", "create", "--config", str(path), "--kubeconfig", admin)
            if key:
                run("kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", str(path))
            found = authority_hash(root / "etc/kubernetes/pki/ca.crt")
        except RefusalError:
            revoke(token, root)
            raise
    return {"changed": True, "token": token, "ca_hash": found, "certificate_key": key}


def revoke(token: str, root: Path = Path("/")) -> None:
    """Delete the token; its ID is public."""
    secret = f"bootstrap-token-{token.partition('.')[0]}"
    kubectl(
        *("delete", "secret", "--namespace", "kube-system", "--ignore-not-found", secret),
        kubeconfig=str(root / ADMIN.lstrip("/")),
    )


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "control_plane": {"type": "bool", "default": False},
            "member": {"type": "str", "default": ""},
            "address": {"type": "str", "default": ""},
            "host": {"type": "str", "default": "a host"},
            "revoke": {"type": "str", "default": "", "no_log": True},
            "minutes": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    params = module.params
    if module.check_mode:
        module.exit_json(changed=True, **CHECKED)

    def work() -> dict[str, Any]:
        try:
            if params["revoke"]:
                revoke(params["revoke"])
                return {"changed": True, "problem": ""}
            did = remove_lost(params["member"], params["address"]) if params["member"] else []
            made = invite(params["control_plane"], params["minutes"], host=params["host"])
            return {**made, "did": did, "problem": ""}
        except RefusalError as problem:
            return {"changed": False, "problem": str(problem)}

    finish(module, work)


if __name__ == "__main__":
    main()
