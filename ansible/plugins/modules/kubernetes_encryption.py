#!/usr/bin/python
"""The keys of a control plane member that encrypt secrets in etcd, exchanged as Kubernetes documents it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_encryption
short_description: Compares and exchanges the keys that encrypt secrets in etcd
description:
  - Each state is a step of Kubernetes' procedure (Encrypting Confidential Data at Rest, rotate a decryption
    key). All members finish a step before the next one starts; a member never goes back a step, so that an
    interrupted rotation continues.
  - A step that changes the keys restarts the member's API server, and waits until it reads all secrets.
options:
  state:
    description:
      - V(same) refuses a member whose cluster uses another key than the first of O(keys), or has not ended a
        rotation. V(ready) refuses one that cannot be rotated to it. Neither changes anything.
      - V(added) adds the new key as the second, V(first) encrypts with it, V(rewritten) writes all secrets
        again, V(only) removes the previous key.
    type: str
    choices: [same, ready, added, first, rewritten, only]
    required: true
  keys:
    description: The current key and the previous one, which may be empty.
    type: list
    elements: str
    required: true
  server:
    description: Address of this member's own API server, as C(https://10.0.0.1:6443).
    type: str
    default: ""
  kubernetes:
    description: Folder of Kubernetes' configuration.
    type: path
    default: /etc/kubernetes
  program:
    description: Program that restarts components of the control plane.
    type: path
    default: /usr/lib/gpufleet/kubernetes-certificates
  timeout_s:
    description: Seconds that an API server may take until it is ready.
    type: int
    default: 300
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Check the encryption key
  gpufleet.rack.kubernetes_encryption:
    state: same
    keys: ["{{ kubernetes_control_plane_encryption_key }}", ""]
"""

RETURN = r"""
did:
  description: Changes, also in check mode.
  type: list
  returned: success
problem:
  description: Why the step was refused or failed; empty otherwise. A result, since C(no_log) hides failures.
  type: str
  returned: success
"""

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import kubectl, run
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

# As in templates/encryption.yaml.j2. All keys have one name: the API server tries each key of a name, and a
# member that joins need not know how many there were.
ENTRY = '            - name: gpufleet-1\n              secret: "{}"\n'
ENTRIES = re.compile(r'(?: +- name: gpufleet-1\n +secret: "?[A-Za-z0-9+/=]+"?\n)+')
WORDS = {
    "added": "added the new key",
    "first": "encrypts with the new key",
    "only": "removed the previous key",
}
READ_S = 30
"""Seconds in which a ready API server has to read all secrets."""
ROTATE = "`gpufleet operate <env> rotate_encryption_key`"


def digest(key: str) -> str:
    """A name for a key that does not reveal it."""
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()[:12]}"


class Member:
    """The encryption of this member."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.new, self.previous = [*params["keys"], ""][:2]
        folder = Path(params["kubernetes"])
        self.path, self.mark = folder / "gpufleet/encryption.yaml", folder / "gpufleet/encryption.served"
        self.manifest, self.admin = folder / "manifests/kube-apiserver.yaml", str(folder / "admin.conf")
        self.server, self.program, self.timeout_s = params["server"], params["program"], params["timeout_s"]

    @property
    def keys(self) -> list[str]:
        """The keys that the member has, the one that encrypts first; empty without a control plane."""
        if not (self.manifest.is_file() and self.path.is_file()):
            return []
        return re.findall(r'secret: "?([A-Za-z0-9+/=]+)', self.path.read_text())

    def refuse_other_key(self) -> None:
        """Raise if the data of the cluster are encrypted with a key that is not given."""
        if lost := [digest(key) for key in self.keys if key not in (self.new, self.previous)]:
            raise RefusalError(
                f"The secrets of the cluster are encrypted with key {', '.join(lost)}, and"
                f" GPUFLEET_SECRET_KUBERNETES_ENCRYPTION_KEY_<SITE> is {digest(self.new)}: a new key must not"
                f" replace the only copy of the old one. Bring back the vault file, or copy the key from"
                f" {self.path} into it; for a new key, run `gpufleet secrets new <env> --rotate"
                f" kubernetes_control_plane_encryption_key`, then {ROTATE}. Nothing was changed."
            )

    def refuse_rotation(self) -> None:
        """Raise unless the cluster uses only the current key."""
        self.refuse_other_key()
        if self.keys and self.keys != [self.new]:
            raise RefusalError(
                f"The cluster encrypts with key {digest(self.keys[0])}, and the current one is"
                f" {digest(self.new)}: the rotation has not ended. Run {ROTATE}, with --resume if it was"
                " interrupted. Nothing was changed."
            )

    def refuse_without_cluster(self) -> None:
        """Raise unless the member can be rotated to the current key."""
        if not self.keys:
            raise RefusalError(
                f"{self.manifest} or {self.path} is missing: the host is no member of a control plane. Run"
                " `gpufleet configure` first. Nothing was changed."
            )
        self.refuse_other_key()
        self.require_readable()

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """kubectl on this member's own API server."""
        at = ("--server", self.server) if self.server else ()
        return kubectl(*at, *words, kubeconfig=self.admin, timeout_s=900, stdin=stdin)

    def require_readable(self) -> None:
        """Wait until the API server is ready and reads all secrets."""
        self.wait("is not ready", self.timeout_s, "get", "--raw", "/readyz")
        words = ("get", "secrets", "--all-namespaces", "-o", "name")
        self.wait("does not read all secrets", READ_S, *words)

    def wait(self, what: str, seconds: int, *words: str) -> None:
        """Wait until kubectl succeeds."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.kubectl(*words, "--request-timeout=60s")
                return
            except RefusalError as problem:
                if time.monotonic() > deadline:
                    raise RefusalError(
                        f"The API server {what}, {seconds} s after it should: {problem}. See"
                        " `journalctl -u kubelet`; run again with --resume."
                    ) from problem
            time.sleep(1)

    def serve(self, keys: list[str]) -> None:
        """Write the keys, and restart the API server with them."""
        text = ENTRIES.sub(
            lambda _: "".join(ENTRY.format(key) for key in keys), self.path.read_text(), count=1
        )
        part = self.path.with_name(".encryption.yaml.new")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.path)
        run(self.program, "restart", "--part", "kube-apiserver")
        self.require_readable()
        self.mark.write_text(hashlib.sha256(text.encode()).hexdigest())

    @property
    def served(self) -> bool:
        """Whether the API server was restarted with the keys of the file."""
        found = self.mark.read_text() if self.mark.is_file() else ""
        return found == hashlib.sha256(self.path.read_bytes()).hexdigest()

    def step(self, state: str, check: bool) -> list[str]:
        """Take one step, unless it was taken."""
        before = self.keys
        others = [key for key in before if key != self.new]
        wanted = {"added": [*others, self.new], "first": [self.new, *others], "only": [self.new]}[state]
        if state == "added" and self.new in before:
            wanted = before
        if wanted == before and self.served:
            return []
        if not check:
            try:
                self.serve(wanted)
            except RefusalError:
                if state == "only" and others:
                    # What is not rewritten yet needs the previous key.
                    self.serve(before)
                raise
        return [WORDS[state]]

    def rewrite(self, check: bool) -> list[str]:
        """Write all secrets again, unless every one was written with the current key only."""
        if self.keys == [self.new]:
            return []
        for attempt in range(1, 6):
            secrets = self.kubectl("get", "secrets", "--all-namespaces", "-o", "json")
            count = len(json.loads(secrets)["items"])
            if check or not count:
                break
            try:
                self.kubectl("replace", "-f", "-", stdin=secrets)
                break
            except RefusalError:
                # One that was changed or removed in between; others are written already.
                if attempt == 5:
                    raise
        return [f"wrote {count} secrets again"]


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Take the step; the result for Ansible."""
    member, state, did = Member(params), params["state"], []
    try:
        if state == "same":
            member.refuse_rotation()
        elif state == "ready":
            member.refuse_without_cluster()
        else:
            member.refuse_other_key()
            did = member.rewrite(check) if state == "rewritten" else member.step(state, check)
    except RefusalError as refusal:
        return {"changed": False, "did": [], "problem": str(refusal)}
    return {"changed": bool(did), "did": did, "problem": ""}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["same", "ready", "added", "first", "rewritten", "only"],
                "required": True,
            },
            "keys": {"type": "list", "elements": "str", "required": True, "no_log": True},
            "server": {"type": "str", "default": ""},
            "kubernetes": {"type": "path", "default": "/etc/kubernetes"},
            "program": {"type": "path", "default": "/usr/lib/gpufleet/kubernetes-certificates"},
            "timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
