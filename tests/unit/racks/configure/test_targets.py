"""The hosts of a run, compared with Ansible's own selection."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from msgspec.structs import replace

from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.targets import select_hosts
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.inventory_text import render


@pytest.fixture
def plan(make_fleet, make_rack) -> FleetPlan:
    """Two sites, the first of them last in the alphabet."""
    first = make_rack(site="zulu")
    renamed = tuple(replace(host, name=f"a-{host.name}") for host in reversed(first.hosts))
    return make_fleet(first, make_rack(site="alpha", hosts=renamed))


@pytest.fixture
def inventory(plan: FleetPlan, catalog, tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(render(build_inventory(plan, catalog)))
    return path


def ansible_hosts(inventory: Path, pattern: str) -> tuple[str, ...]:
    manager = InventoryManager(loader=DataLoader(), sources=[str(inventory)])
    return tuple(host.name for host in manager.list_hosts(pattern))


@pytest.mark.parametrize(
    ("site", "pattern"), [("", "onprem"), ("zulu", "site_zulu"), ("alpha", "site_alpha")]
)
def test_hosts_and_order_without_a_limit_equal_those_of_ansible(
    plan: FleetPlan, inventory: Path, site: str, pattern: str
) -> None:
    chosen = select_hosts(plan, inventory, site=site)
    assert chosen == ansible_hosts(inventory, pattern)
    assert len(chosen) == (4 if site else 8)


def test_limit_is_an_ansible_pattern_within_the_site(plan: FleetPlan, inventory: Path) -> None:
    limit = "role_gpu:!*dgx002"
    wanted = set(ansible_hosts(inventory, limit))
    assert set(select_hosts(plan, inventory, limit=limit)) == wanted
    here = select_hosts(plan, inventory, site="alpha", limit=limit)
    assert set(here) == {name for name in wanted if name.startswith("a-")}
    assert len(here) == 2


def test_empty_selection_and_unknown_site_are_refused(plan: FleetPlan, inventory: Path) -> None:
    with pytest.raises(InputError, match="no rack host of site 'alpha' matches 'dgx001'"):
        select_hosts(plan, inventory, site="alpha", limit="dgx001")
    with pytest.raises(InputError, match="no rack site 'moon'"):
        select_hosts(plan, inventory, site="moon")
    with pytest.raises(InputError, match="no racks to configure"):
        select_hosts(replace(plan, onprem=()), inventory)
