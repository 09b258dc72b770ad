"""A rack that the tests in this folder share; each restores what it changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.lab.rack import missing
from tests import late
from tests.rack.lab import Lab, fleet_text
from tests.rack.management import Controllers
from tests.rack.site import BACKUPS, MONITORED, PEOPLE, ArgumentWatcher, Runs, Site

HERE = Path(__file__).parent
# Shell for a rack's ProxyCommand, which ssh runs thousands of times.
os.environ["SHELL"] = "/bin/sh"
# Fixtures that hold a rack for several files, by kind, the last test of each, and running racks.
SHARED = {"rack-cluster": "cluster", "rack-gpus": "gpu_rack", "rack-sites": "runs", "rack-hosts": "rack"}
LAST: dict[str, pytest.Item] = {}
UP: dict[str, Lab] = {}


# Files with their own racks that run with those of gpu_rack: each process then has about half of the work.
WITH_GPU_RACK = {"test_cloud_nodes", "test_fabric", "test_health_check", "test_storage"}
# Files whose tests take minutes each: they follow the others, since a late run leaves out what has not begun.
LONG = {"test_cloud_nodes", "test_cloud_slurm", "test_guide", "test_nodes", "test_slurm_ssh"}
# Files in which tests that start their own rack run with those of gpu_rack.
PARTLY_ALONE = {"test_life"}
# The racks of a process follow each other in this order. With racks in three processes a whole run is as long
# on two processors, takes an eighth more of their time, and tests fail that wait for Slurm.
TWO = (("rack-cluster", "rack-gpus"), ("rack-sites", "rack-hosts"))
# A run with a time from which it is late is for slow machines: beside another rack, hosts boot in minutes.
ONE = (("rack-sites", "rack-hosts", "rack-gpus", "rack-cluster"),)
PROCESSES = ONE if late.VARIABLE in os.environ else TWO


@pytest.hookimpl(tryfirst=True)  # before the hook that reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At most two processes have racks.

    More would compete for processors, and start shared racks again. Tests of one
    shared rack follow each other, so that it is removed before the next one starts.
    """
    ours = [place for place, item in enumerate(items) if HERE in item.path.parents]
    kinds = [name for names in PROCESSES for name in late.turned(names)]
    order = {name: place for place, name in enumerate(kinds)}
    process = {name: names[0] for names in PROCESSES for name in names}
    ordered = sorted(
        (items[place] for place in ours),
        key=lambda item: (order[rack_of(item)], item.path.stem in LONG),
    )
    for place, item in zip(ours, ordered, strict=True):
        items[place] = item
        kind = rack_of(item)
        item.add_marker(pytest.mark.xdist_group(process[kind]))
        if SHARED.get(kind) in fixtures_of(item):
            LAST[SHARED[kind]] = item


def fixtures_of(item: Any) -> set[str]:
    """The names of the fixtures that a test uses."""
    return set(item.fixturenames)


def rack_of(item: pytest.Item) -> str:
    """The kind of rack that a test needs."""
    if item.path.parent.name == "kubernetes":
        return "rack-cluster"
    if "runs" in fixtures_of(item):
        return "rack-sites"
    own_rack = item.path.stem in PARTLY_ALONE and fixtures_of(item).isdisjoint(SHARED.values())
    with_gpus = "gpu_rack" in fixtures_of(item) or item.path.stem in WITH_GPU_RACK or own_rack
    return "rack-gpus" if with_gpus else "rack-hosts"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A shared rack is stopped after the last test that uses it: its hosts would keep a processor busy."""
    for name in [name for name, last in LAST.items() if last is item]:
        if name in UP:
            UP.pop(name).down()


@pytest.fixture(scope="session")
def can_hold_racks() -> None:
    """Skip if this machine cannot run racks at all; fail if a package is missing."""
    lacking = missing()
    if lacking.startswith("the packages"):
        pytest.fail(f"a rack in a box needs {lacking}: run `scripts/setup system`", pytrace=False)
    if lacking:
        pytest.skip(f"no rack in a box: it needs {lacking}")


@pytest.fixture(scope="session")
def racks_up() -> dict[str, Lab]:
    """Running racks by fixture; each is stopped after its last test."""
    return UP


@pytest.fixture(scope="session")
def rack(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two controllers, a login host and four GPU nodes, as they are after their first boot."""
    made = UP["rack"] = Lab.up(tmp_path_factory.mktemp("rack"))
    yield made
    made.down()


@pytest.fixture(scope="session")
def gpu_rack(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two GPU nodes with vendor packages; with a snapshot like `bare`."""
    fleet = fleet_text(gpu_nodes=2, controllers=1, login=False, more=MONITORED)
    made = Lab.up(tmp_path_factory.mktemp("gpu"), fleet)
    UP["gpu_rack"] = made
    try:
        made.add_vendor_repository("dgx01", "dgx02")
        made.seal("bare")
        yield made
    finally:
        made.down()


@pytest.fixture
def clean_rack(rack: Lab) -> Iterator[Lab]:
    """The rack; hosts that the test has touched are reset to their first boot afterwards."""
    rack.touched.clear()
    yield rack
    rack.reset(*sorted(rack.touched))


@pytest.fixture(scope="session")
def runs(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A rack from bare hosts to a working cluster, with management controllers."""
    controllers = Controllers(tmp_path_factory.mktemp("bmc"), [f"dgx{number:02d}" for number in range(1, 5)])
    folder, fleet = tmp_path_factory.mktemp("site"), fleet_text(more=PEOPLE + BACKUPS + controllers.fleet)
    try:
        site = Site.up(folder, fleet, controllers)
        UP["runs"] = site.lab
        with ArgumentWatcher(list(site.secrets.values())) as arguments:
            reported = [site.configure("--check", "--diff", code=1), site.configure(), site.configure()]
        site.lab.seal("site")
        site.wait_for_nodes()
        yield Runs(site, *reported, arguments=arguments)
    finally:
        controllers.close()
        if "runs" in UP:
            UP.pop("runs").down()


@pytest.fixture
def site(runs: Runs) -> Site:
    """The configured site, for tests that do not change it."""
    return repaired(runs)


@pytest.fixture
def site_to_break(runs: Runs, request: pytest.FixtureRequest) -> Site:
    """The configured site; changes by a test are undone before the next one.

    With the mark `breaks` only the hosts that it names are reset.
    """
    made = repaired(runs)
    mark = request.node.get_closest_marker("breaks")
    runs.broken = tuple(mark.args) if mark else tuple(made.lab.healthy)
    return made


def repaired(runs: Runs) -> Site:
    """Reset the site to its configured state, if a test has changed it."""
    if runs.broken:
        runs.site.lab.reset(*runs.broken, name="site")
        runs.site.wait_for_nodes()
        runs.broken = ()
    return runs.site
