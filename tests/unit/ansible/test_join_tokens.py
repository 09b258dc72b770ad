"""A host that joins a cluster: its token is revoked, whether the join fails or ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.ansible.recorded import Answer, Recorder
from tests.unit.ansible.rendering import ANSIBLE
from tests.unit.ansible.test_kubernetes_files import fleet

TOKEN = "abcdef.0123456789abcdef"


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize(
    ("role", "host", "member"),
    [("kubernetes_control_plane", "ctl03", "ctl02"), ("kubernetes_node", "dgx01", "ctl01")],
)
def test_token_is_revoked_on_the_member_that_made_it(
    tmp_path: Path, role: str, host: str, member: str, fails: bool
) -> None:
    play = {"hosts": host, "gather_facts": False, "roles": [f"gpufleet.rack.{role}"]}
    facts = {"import_playbook": str(ANSIBLE / "playbooks" / "facts.yml")}
    (tmp_path / "play.yml").write_text(json.dumps([facts, play]))
    invitation = {"token": TOKEN, "ca_hash": "sha256:0", "certificate_key": "0", "problem": ""}
    notes, _, reported = Recorder(tmp_path, fleet("1.35")).play(
        str(tmp_path / "play.yml"),
        Answer("kubeadm", {"member": False, "running": ["ctl02"]}, arguments={"state": "known"}),
        Answer("kubeadm", {"failed": fails}, arguments={"state": "joined"}),
        Answer("kubeadm_invitation", invitation),
        limit=host,
        kubernetes_control_plane_encryption_key="A" * 43 + "=",
    )
    made, revoked = [note for note in notes if note.module == "kubeadm_invitation"]
    assert "revoke" not in made.arguments and revoked.arguments == {"revoke": TOKEN}, reported[-2000:]
    assert made.host == revoked.host == member
    joined = [note.module for note in notes].index("kubeadm_invitation")
    assert any(note.arguments.get("state") == "joined" for note in notes[joined:])
    assert any(note.arguments.get("state") == "current" for note in notes) is not fails
