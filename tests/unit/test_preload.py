"""The preloaded modules are exactly those that a run's programs import."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from gpufleet.preload import ACCOUNT, LIBRARIES, PROGRAMS, PROVIDERS, THROWAWAY_PROVIDERS

ROOT = Path(__file__).resolve().parents[2]


def used(pattern: str) -> set[str]:
    """Names that the stack's program uses of a generated package."""
    sources = [
        path.read_text() for folder in ("components", "stacks") for path in (ROOT / folder).rglob("*.py")
    ]
    return {found for source in sources for found in re.findall(pattern, source)}


def test_services_of_the_program_are_imported_once() -> None:
    # Only servers of a Slurm have file systems of EFS; only a connection to racks has associations of Direct
    # Connect and DNS endpoints.
    rare = {"directconnect", "efs", "route53"}
    services = used(r"\baws\.([a-z0-9_]+)\.(?:[A-Z]|get_)") - rare
    assert {f"pulumi_aws.{service}" for service in services} == {
        name for name in LIBRARIES if name.startswith("pulumi_aws.")
    }


def test_kubernetes_groups_of_the_program_are_imported_once() -> None:
    # Only sites with operators have Helm releases, and only those with fault repair a storage class.
    groups = used(r"\bk8s\.([a-z0-9]+\.v[0-9]+)\.[A-Z]") - {"helm.v3", "storage.v1"}
    assert {f"pulumi_kubernetes.{group}" for group in groups} == {
        name for name in LIBRARIES if name.startswith("pulumi_kubernetes.")
    }


def test_preloaded_modules_exist_and_libraries_exclude_gpufleet() -> None:
    for name in (*PROGRAMS, *PROVIDERS, *THROWAWAY_PROVIDERS, *ACCOUNT):
        assert importlib.util.find_spec(name) is not None, name
    assert not [name for name in (*LIBRARIES, *ACCOUNT) if name.startswith("gpufleet")]
