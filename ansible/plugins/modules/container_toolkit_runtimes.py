#!/usr/bin/python
"""Ansible module: enable the CDI specification of GPUs in container runtimes, and configure NVIDIA's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.node_guard import take_out_of_service
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

DOCUMENTATION = r"""
---
module: container_toolkit_runtimes
short_description: Enables CDI in Docker and containerd, and configures NVIDIA's container runtime
description:
  - Runs C(nvidia-ctk runtime configure) if a runtime is installed with CDI disabled, and keeps
    other settings. Restarts a runtime that started before its configuration was written, after draining
    the node; fails while work runs on it (see M(gpufleet.rack.node_guard)).
options:
  runtimes:
    description: Runtimes to configure.
    type: list
    elements: str
    required: true
  environment_needs_privileges:
    description:
      - Whether NVIDIA's container runtime ignores C(NVIDIA_VISIBLE_DEVICES) of unprivileged containers.
        With C(false), its setting remains. The runtime reads it at each start of a container.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Enable CDI in Docker
  gpufleet.rack.container_toolkit_runtimes:
    runtimes: [docker]
"""

RETURN = r"""
installed:
  description: Installed runtimes.
  type: list
  returned: always
actions:
  description: Changes of each runtime and of C(nvidia), also in check mode.
  type: dict
  returned: always
"""

PROGRAMS = {"docker": "dockerd", "containerd": "containerd"}
# Containers end with the daemon of Docker, those of containerd do not.
STOPS = {"docker": "containers", "containerd": "gpus"}
CONFIGURATIONS = {
    "docker": ["etc/docker/daemon.json"],
    "containerd": ["etc/containerd/config.toml", "etc/containerd/conf.d/99-nvidia.toml"],
}
TOOLKIT = "etc/nvidia-container-runtime/config.toml"
ENVIRONMENT = "accept-nvidia-visible-devices-envvar-when-unprivileged"


class RuntimeHost:
    """Host access of this module."""

    def __init__(self, root="/"):
        self.root = Path(root)

    def run(self, *command):
        """Run a program; exit code and output."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def has(self, program):
        """Whether a program is installed."""
        return shutil.which(program) is not None

    def uses_cdi(self, runtime):
        """Whether CDI is enabled in the configuration of the runtime."""
        if runtime == "containerd":
            # Including defaults: containerd 2 enables CDI.
            code, text = self.run("containerd", "config", "dump")
            return code == 0 and re.search(r"enable_cdi\s*=\s*true", text) is not None
        path = self.root / CONFIGURATIONS["docker"][0]
        try:
            return bool(json.loads(path.read_text()).get("features", {}).get("cdi"))
        except FileNotFoundError:
            return False
        except (ValueError, AttributeError) as error:
            raise RefusalError(
                f"{path} is no JSON object ({error}). Docker does not start with it either: correct it."
            ) from None

    def ignores_environment(self):
        """Whether NVIDIA's container runtime ignores the environment of unprivileged containers."""
        path = self.root / TOOLKIT
        text = path.read_text() if path.exists() else ""
        # Lines with defaults are comments.
        return re.search(rf"^\s*{ENVIRONMENT}\s*=\s*false\b", text, re.MULTILINE) is not None

    def written(self, runtime):
        """Modification time of the configuration, in seconds; 0 without one."""
        paths = [self.root / name for name in CONFIGURATIONS[runtime]]
        return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)

    def started(self, runtime):
        """Start time of the service, in seconds; None if it is not running."""
        words = ("--property", "ActiveState,ActiveEnterTimestamp", "--timestamp=unix")
        code, text = self.run("systemctl", "show", *words, f"{runtime}.service")
        fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        if code or fields.get("ActiveState") != "active":
            return None
        return float(fields["ActiveEnterTimestamp"].lstrip("@") or 0)


def ensure(host, runtime, check):
    """Enable CDI; the changes."""
    actions = []
    configures, started = not host.uses_cdi(runtime), host.started(runtime)
    # systemd reports whole seconds.
    restarts = started is not None and (configures or int(host.written(runtime)) > started)
    if restarts:
        take_out_of_service(f"{runtime} restarts", stops=STOPS[runtime], check=check)
    if configures:
        actions.append("configure")
        if not check:
            code, output = host.run(
                "nvidia-ctk", "runtime", "configure", f"--runtime={runtime}", "--cdi.enabled"
            )
            if code or not host.uses_cdi(runtime):
                raise RefusalError(
                    f"nvidia-ctk did not switch CDI on in {runtime}: {output.strip()[-300:]}. See "
                    f"/{CONFIGURATIONS[runtime][0]} on the host."
                )
    if restarts:
        actions.append("restart")
        if not check:
            code, output = host.run("systemctl", "restart", f"{runtime}.service")
            if code:
                raise RefusalError(f"{runtime} did not restart: {output.strip()[-300:]}.")
    return actions


def restrict(host, check):
    """Make NVIDIA's container runtime ignore the environment of unprivileged containers; the changes."""
    if host.ignores_environment():
        return []
    if not check:
        options = ("--in-place", f"--config-file=/{TOOLKIT}", f"--set={ENVIRONMENT}=false")
        code, output = host.run("nvidia-ctk", "config", *options)
        if code or not host.ignores_environment():
            raise RefusalError(
                f"nvidia-ctk did not set {ENVIRONMENT} to false: {output.strip()[-300:]}. See /{TOOLKIT} on "
                "the host."
            )
    return ["configure"]


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "runtimes": {"type": "list", "elements": "str", "required": True},
            "environment_needs_privileges": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    host = RuntimeHost()
    installed = [name for name in module.params["runtimes"] if host.has(PROGRAMS[name])]
    try:
        actions = {name: ensure(host, name, module.check_mode) for name in installed}
        if module.params["environment_needs_privileges"]:
            actions["nvidia"] = restrict(host, module.check_mode)
    except (RefusalError, OSError, subprocess.SubprocessError) as error:
        module.fail_json(msg=str(error))
    lines = [f"{name}: {', '.join(done)}\n" for name, done in actions.items() if done]
    module.exit_json(
        changed=bool(lines),
        installed=installed,
        actions=actions,
        diff={"before": "", "after": "".join(lines)},
    )


if __name__ == "__main__":
    main()
