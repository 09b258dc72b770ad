"""Files as the roles write them, rendered by Ansible from a real inventory, without a host."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.manager import VariableManager

from tests.rack.lab import plan_fleet

ANSIBLE = Path(__file__).resolve().parents[3] / "ansible"
SECRETS = {
    "munge_key": "planted-munge-key-" + "k" * 32,
    "slurm_database_password": "Planted-Password-0123456789",
    "kubernetes_control_plane_encryption_key": "UGxhbnRlZC1LZXktUGxhbnRlZC1LZXktUGxhbnRlZCE=",
    "prometheus_remote_write_password": "Planted-Remote-Write-0123456789",
    "alertmanager_webhook_token": "Planted-Token-0123456789",
    "alertmanager_slack_url": "https://hooks.example.com/planted-slack-0123456789",
    "alertmanager_heartbeat_url": "https://alive.example.com/planted-heartbeat-0123456789",
    "alertmanager_smtp_password": 'Planted-"Mail\\Password-0123456789',
    "grafana_admin_password": "Planted-Admin-0123456789",
}
CHANGED = {"changed": True, "changed_files": [], "changed_units": {}, "measurements": {}}
DISTRIBUTIONS = {
    "debian_12": ("Debian", "12", "bookworm", "6.1.0-40-amd64"),
    "ubuntu_22_04": ("Ubuntu", "22.04", "jammy", "5.15.0-160-generic"),
    "ubuntu_24_04": ("Ubuntu", "24.04", "noble", "6.8.0-90-generic"),
    "dgx_os_6": ("Ubuntu", "22.04", "jammy", "5.15.0-1083-nvidia"),
    "dgx_os_7": ("Ubuntu", "24.04", "noble", "6.8.0-1040-nvidia"),
}


@dataclass(frozen=True)
class RenderedFile:
    """A file of a role: where it goes, its text, its permissions."""

    role: str
    path: str
    text: str
    mode: str
    owner: str
    secret: bool


@functools.cache
def _loader() -> DataLoader:
    return DataLoader()


def facts(system: str, *, container: bool = False, cgroup: int = 2) -> dict[str, Any]:
    """Facts of a host of a system."""
    name, version, release, kernel = DISTRIBUTIONS[system]
    return {
        "gpufleet_system": system,
        "gpufleet_container": container,
        "gpufleet_cgroup": cgroup,
        "gpufleet_kubelet_cgroup_v1": False,
        "distribution": name,
        "distribution_version": version,
        "distribution_release": release,
        "distribution_major_version": version.split(".")[0],
        "kernel": kernel,
        "architecture": "x86_64",
        "hostname": "host",
        "processor_count": 2,
        "processor_cores": 56,
        "processor_threads_per_core": 2,
        "processor_vcpus": 224,
        "processor_nproc": 224,
        "memtotal_mb": 2063000,
        "default_ipv4": {"address": "10.90.0.11", "interface": "eth0"},
        "all_ipv4_addresses": ["10.90.0.11"],
        "mounts": [],
        "interfaces": ["eth0"],
    }


class Site:
    """The hosts of a fleet file's rack, with the variables that the inventory gives them."""

    def __init__(self, fleet: str, folder: Path) -> None:
        (folder / "fleet.yaml").write_text(fleet)
        (folder / "inventory.yml").write_text(plan_fleet(folder / "fleet.yaml")[1])
        self.inventory = InventoryManager(loader=_loader(), sources=[str(folder / "inventory.yml")])
        self.manager = VariableManager(loader=_loader(), inventory=self.inventory)
        self.playbooks = [
            play
            for path in sorted((ANSIBLE / "playbooks").glob("*.yml"))
            for play in _loader().load_from_file(str(path))
            if play.get("roles") and path.stem != "preflight"
        ]

    def roles(self, host: str) -> list[str]:
        """The roles that the playbooks give to a host."""
        found: list[str] = []
        for play in self.playbooks:
            if host in [item.name for item in self.inventory.get_hosts(play["hosts"])]:
                found += [item["role"].removeprefix("gpufleet.rack.") for item in play["roles"]]
        return list(dict.fromkeys(found))

    def variables(self, host: str, role: str, system: str, **facts_of: Any) -> dict[str, Any]:
        """Variables of a role on a host."""
        known = facts(system, **facts_of)
        of_inventory = self.manager.get_vars(host=self.inventory.get_host(host))
        others = {name: {"ansible_facts": known} for name in self.inventory.hosts}
        registered = {task["register"]: CHANGED for _, task in tasks(role) if "register" in task}
        return (
            _variables(role, "defaults")
            | {name: value for name, value in of_inventory.items() if name not in ("hostvars", "vars")}
            | _variables(role, "vars")
            | registered
            | {name: trust_as_template(value) for name, value in SECRETS.items()}
            | {"ansible_facts": known, "hostvars": others, "ansible_check_mode": False}
            | {
                "inventory_hostname": host,
                "ansible_play_hosts_all": list(others),
                "ansible_play_hosts": list(others),
            }
        )

    def rendered(
        self, host: str, role: str, system: str, extra: Mapping[str, Any] | None = None, **facts_of: Any
    ) -> dict[str, RenderedFile]:
        """Files of a role on a host, by path. `extra` overrides the inventory."""
        variables = self.variables(host, role, system, **facts_of) | dict(extra or {})
        return {item.path: item for item in _rendered(role, variables)}


def tasks(role: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """All tasks of a role."""
    for path in sorted((ANSIBLE / "roles" / role / "tasks").glob("*.yml")):
        for task in _loader().load_from_file(str(path), trusted_as_template=True) or []:
            yield path, task


def _variables(role: str, part: str) -> dict[str, Any]:
    path = ANSIBLE / "roles" / role / part / "main.yml"
    return (_loader().load_from_file(str(path), trusted_as_template=True) or {}) if path.exists() else {}


def _rendered(role: str, variables: dict[str, Any]) -> Iterator[RenderedFile]:
    folder = ANSIBLE / "roles" / role
    for path, task in tasks(role):
        if "gpufleet.rack.files" not in task or path.stem in ("verify", "rotate"):
            continue
        templar = Templar(loader=_loader(), variables=variables | task.get("vars", {}))
        for raw in templar.template(task["gpufleet.rack.files"]["files"]):
            item = dict(raw)
            if not item.get("when", True) or not {"template", "source", "content"} & item.keys():
                continue
            if "template" in item:
                source = trust_as_template((folder / "templates" / item["template"]).read_text())
                inner = templar.copy_with_new_env(
                    searchpath=[str(folder / "templates")], available_variables=variables
                )
                overrides = {"trim_blocks": True, "lstrip_blocks": False}
                text = inner.template(source, escape_backslashes=False, overrides=overrides)
            elif "source" in item:
                text = (folder / "files" / item["source"]).read_text()
            else:
                text = item["content"]
            mode, owner = item.get("mode", "0644"), item.get("owner", "root")
            yield RenderedFile(role, item["path"], str(text or ""), mode, owner, bool(item.get("secret")))
