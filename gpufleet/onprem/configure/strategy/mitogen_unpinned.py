"""Ansible's linear strategy over mitogen, with its processes on whatever core is free.

mitogen ties its own process to the first core, and Ansible with all its workers to the others, which was
made for machines with many cores. With two, all that Ansible does shares the second one while the first is
nearly idle; and where a control group allows only some cores, it names others. Here the kernel chooses.

What each worker would look up anew is looked up once, before workers are forked: Jinja's filters and tests,
and where collections are (about a sixth of a worker's time on tasks of this project). See adr/0019.

Ansible loads this file by its path (ANSIBLE_STRATEGY_PLUGINS), see `transport`.
"""

from __future__ import annotations

from typing import Any

import ansible_mitogen.affinity
import ansible_mitogen.loaders
import ansible_mitogen.planner
import ansible_mitogen.strategy
from ansible.collections.list import list_collection_dirs
from ansible.plugins.loader import filter_loader, test_loader

ansible_mitogen.affinity.policy = ansible_mitogen.affinity.Policy()

_Linear = ansible_mitogen.loaders.strategy_loader.get("linear", class_only=True)


class StrategyModule(ansible_mitogen.strategy.StrategyMixin, _Linear):  # type: ignore[misc, valid-type]
    """As `mitogen_linear`, which is made of the same two."""

    def run(self, *arguments: Any, **options: Any) -> Any:
        """A play, with what its workers share in memory."""
        # Any one of them: the first question loads all.
        filter_loader.get("ansible.builtin.upper")
        test_loader.get("ansible.builtin.defined")
        return super().run(*arguments, **options)


_folders = [folder.decode() for folder in list_collection_dirs()]


def _tell_collections(invocation: Any) -> None:
    invocation._extra_sys_paths.update(_folders)


ansible_mitogen.planner._load_collections = _tell_collections
