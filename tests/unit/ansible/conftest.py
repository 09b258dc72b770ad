"""Let Ansible's plugin loader find the checkout's collection before anything imports it."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

# Once per process: the first import of `ansible_collections` decides its location.
init_plugin_loader([str(Path(__file__).resolve().parents[3] / "gpufleet" / "collections")])
