"""Ansible's plugin loader knows the checkout's collection before anything imports from it."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

# Once a process: whoever imports `ansible_collections` first decides where it is.
init_plugin_loader([str(Path(__file__).resolve().parents[3] / "gpufleet" / "collections")])
