"""Variables and templates of roles as in Ansible, and their modules, without a host."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.loading import load_source

ANSIBLE = Path(__file__).resolve().parents[3] / "ansible"
SYSTEMS = ("debian_12", "ubuntu_22_04", "ubuntu_24_04", "dgx_os_6", "dgx_os_7")


class Role:
    """A role with the variables that an inventory would give it."""

    def __init__(self, name: str, system: str = "debian_12", **variables: Any) -> None:
        self.folder = ANSIBLE / "roles" / name
        loader = DataLoader()
        given: dict[str, Any] = {
            "ansible_facts": {
                "gpufleet_system": system,
                "gpufleet_container": False,
                "kernel": "6.8.0-60-generic",
            }
        }
        for part in ("defaults", "vars"):
            path = self.folder / part / "main.yml"
            given |= loader.load_from_file(str(path), trusted_as_template=True) or {}
        self.templar = Templar(loader=loader, variables=given | variables)

    def value(self, name: str) -> Any:
        """A variable, templated."""
        return self.templar.template(trust_as_template("{{ " + name + " }}"))

    def render(self, template: str) -> str:
        """A template of the role."""
        text = trust_as_template((self.folder / "templates" / template).read_text())
        return str(self.templar.template(text, overrides={"trim_blocks": True, "lstrip_blocks": False}))


def load_module(path: str) -> ModuleType:
    """A module of a role or of the collection, by its path below `ansible/`."""
    collections = str(ANSIBLE.parent / "gpufleet" / "collections")
    if collections not in sys.path:
        sys.path.append(collections)
    return load_source(ANSIBLE / path, Path(path).stem)
