"""The instance that becomes an image of Slurm nodes, configured by `playbooks/build_image.yml`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from gpufleet.errors import CloudError, InputError
from gpufleet.files import write_atomically
from gpufleet.racks.configure.attempt import connection_environment
from gpufleet.racks.configure.known_hosts import SSH_PORT, known_name
from gpufleet.racks.inventory_text import render
from gpufleet.racks.runner import OnTask, PlaybookRun, run_playbook

PLAYBOOK = "playbooks/build_image.yml"
GROUP = "cloud_images"


class ImageHost(Struct, frozen=True, kw_only=True):
    """How to reach the instance. `keys` are its host keys as (kind, key), `variables` those of its way."""

    name: str
    address: str
    user: str
    keys: Sequence[tuple[str, str]]
    variables: Mapping[str, str] = field(default_factory=dict)


def new_key(folder: Path) -> str:
    """Make an SSH key for one build in `folder`, and return its public part."""
    try:
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpufleet image build"]
        subprocess.run([*command, "-f", _key(folder)], check=True, capture_output=True)  # noqa: S603 - no shell, no words of a user
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"ssh-keygen does not run: {error}", remedy="install the OpenSSH client") from None
    return _key(folder).with_suffix(".pub").read_text(encoding="utf-8").strip()


def configure_image(
    project: Path, folder: Path, host: ImageHost, mirror: str, ssh_config: Path | None, on_task: OnTask
) -> None:
    """Install what nodes need, and remove what belongs to the instance alone.

    `folder` has the key of `new_key`, and gets inventory and known_hosts. `mirror` is the site's
    `package_mirror`, empty without one. Raises CloudError if a task fails or the host is not reached.
    """
    known = folder / "known_hosts"
    name = known_name(host.address, SSH_PORT)
    write_atomically(known, "".join(f"{name} {kind} {key}\n" for kind, key in host.keys), mode=0o600)
    inventory = folder / "inventory.yaml"
    values = {
        "ansible_host": host.address,
        "ansible_user": host.user,
        "ansible_ssh_private_key_file": str(_key(folder)),
        "base_package_mirror": mirror,
        **host.variables,
    }
    tree = {"all": {"children": {GROUP: {"hosts": {host.name: values}}}}}
    write_atomically(inventory, render(tree), mode=0o600)
    result = run_playbook(
        PlaybookRun(
            project=project,
            playbook=PLAYBOOK,
            inventory=inventory,
            environment=connection_environment((known,), ssh_config, "ssh", folder / "facts"),
        ),
        on_task,
    )
    if result.failed_hosts:
        failures = "; ".join(f"{event.task}: {event.message}" for event in result.failures)
        raise CloudError(
            f"{host.name} could not be configured: {failures}",
            remedy="correct what it names, and build again: the instance is terminated",
        )


def _key(folder: Path) -> Path:
    return folder / "key"
