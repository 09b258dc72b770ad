"""Where a run's playbooks and roles are: the collection `gpufleet.rack` of a fork, or of gpufleet itself."""

from __future__ import annotations

from pathlib import Path

_COLLECTIONS = Path("gpufleet", "collections")
_INSTALLED = Path(__file__).parents[2] / _COLLECTIONS
_COLLECTION = Path("ansible_collections", "gpufleet", "rack")


def ansible_project(root: Path) -> Path:
    """The folder with `ansible.cfg`, `playbooks` and `roles`: `ansible/` of the repository `root` where that
    is the collection, as in a fork; else the collection of the gpufleet that runs.
    """
    own = root / "ansible"
    return own if (own / "galaxy.yml").is_file() else (_INSTALLED / _COLLECTION).resolve()


def collections_folder(project: Path) -> Path:
    """The folder in which Ansible finds the collection `gpufleet.rack` of the project."""
    own = project.resolve().parent / _COLLECTIONS
    return own if own.is_dir() else _INSTALLED
