"""Ansible's inventory plugin `yaml`, loaded to make ansible-playbook start faster.

Ansible copies all that it reads from YAML files, each text with the tags that say where it stands: a third of
the processor time before the first task of site.yml. Texts, numbers and tags never change, so a copy shares
them. This plugin is the first code of gpufleet in the process: it runs before the playbook is read. As the
only plugin for inventories, it also reads the inventory once and not three times (adr/0019).
"""

from __future__ import annotations

from typing import Any

from ansible.module_utils._internal._datatag import (
    AnsibleDatatagBase,
    _AnsibleTaggedFloat,
    _AnsibleTaggedInt,
    _AnsibleTaggedStr,
)
from ansible.plugins.inventory import yaml

DOCUMENTATION = """
name: shared_yaml
short_description: A YAML inventory, whose copies share texts and tags
options:
  yaml_extensions:
    description: File extensions of inventories.
    type: list
    elements: string
    default: [.yaml, .yml]
"""


def _share(value: Any, _: dict[int, Any]) -> Any:
    return value


for kind in (AnsibleDatatagBase, _AnsibleTaggedStr, _AnsibleTaggedInt, _AnsibleTaggedFloat):
    kind.__deepcopy__ = _share


class InventoryModule(yaml.InventoryModule):  # type: ignore[misc]  # ansible-core has no types
    """As `yaml`."""

    NAME = "shared_yaml"
