"""`gpufleet image build` with a host of a rack as the instance that it launches."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpufleet.account.image_builder import Pauses
from gpufleet.cli.image_build import Build
from tests.rack.cloud_hosts import Instances
from tests.rack.lab import Lab


def build_image(
    lab: Lab, account: Path, fleet: Path, outputs: Mapping[str, Any], machine: tuple[str, str], base: str
) -> dict[str, Any]:
    """Build an image on `base` for a fleet file, and return EC2's description of it.

    `machine` is the (address, host) of the instance. The host is powered off afterwards, as the image is.
    """
    address, host = machine
    instances = Instances(lab, account, {address: host}, "identity")
    # A repository of its own: this one's settings say that its sandbox is emulated.
    (fleet.parent / "Pulumi.yaml").write_text("name: gpufleet\nruntime: python\n")
    (fleet.parent / "stacks").mkdir()

    def console_keys(ec2: Any, instance: str) -> tuple[tuple[str, str], ...]:
        """Do what cloud-init does at the first boot: take the keys of the user data, print those of sshd."""
        reported = ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"][
            "Value"
        ]
        config = json.loads(base64.b64decode(reported).decode().removeprefix("#cloud-config\n"))
        keys = shlex.quote("\n".join(config["ssh_authorized_keys"]))
        login = f"echo {keys} >/home/ansible/.ssh/authorized_keys; cat /etc/ssh/ssh_host_*_key.pub"
        shown = lab.sh(host, login, code=None).splitlines()
        return tuple((line.split()[0], line.split()[1]) for line in shown)

    with pytest.MonkeyPatch.context() as patch, instances.up():
        patch.setattr("gpufleet.account.image_builder.console_keys", console_keys)
        patch.setattr("gpufleet.cli.configure_setup.stack_outputs", lambda *_: dict(outputs))
        for name, value in (instances.environment | lab.rack.environment()).items():
            patch.setenv(name, value)
        image = Build(
            environment=str(fleet),
            base=base,
            user="ansible",
            direct=True,
            ssh_config=lab.rack.record.ssh_config,
            pauses=Pauses(between=1, instance=120, image=60),
        ).run()
        assert not instances.alive()
        (found,) = instances.client("ec2").describe_images(ImageIds=[image])["Images"]
    return dict(found)
