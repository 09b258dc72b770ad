"""A rack for the tests here, raised once: they share it, and leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.onprem.rack import missing
from tests.rack.lab import Lab, fleet_text
from tests.rack.management import Controllers
from tests.rack.site import MONITORED, PEOPLE, ArgumentsSeen, Runs, Site

HERE = Path(__file__).parent
# Fixtures that hold a rack for several files, the last test of each, and the racks that are up.
SHARED = {"rack", "gpu_rack", "runs"}
LAST: dict[str, pytest.Item] = {}
UP: dict[str, Lab] = {}


# Files with racks of their own that go with those of gpu_rack, so that each process has about a third of the work.
WITH_GPU_RACK = {"test_health_check", "test_storage"}


@pytest.hookimpl(tryfirst=True)  # before the one that reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Three processes at most have racks, where there are several, each about a third of the work.

    More would only wait for each other's processors, and raise again the racks that files share. Tests of one
    shared rack follow each other, so that it goes before the next is raised.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
            LAST.update(dict.fromkeys(SHARED & set(item.fixturenames), item))


def group_of(item: pytest.Item) -> str:
    """The process that a test runs in."""
    if "runs" in item.fixturenames:
        return "rack-sites"
    with_gpus = "gpu_rack" in item.fixturenames or item.path.stem in WITH_GPU_RACK
    return "rack-gpus" if with_gpus else "rack-hosts"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A shared rack goes with the last test that uses it: its hosts would keep a processor busy."""
    for name in [name for name, last in LAST.items() if last is item]:
        if name in UP:
            UP.pop(name).down()


@pytest.fixture(scope="session")
def can_hold_racks() -> None:
    """Skips, in one line, where this machine cannot hold racks."""
    lacking = missing()
    if lacking:
        pytest.skip(f"the tests on a rack in a box did not run: they need {lacking}")


@pytest.fixture(scope="session")
def rack(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two controllers, a login host and four GPU nodes, as they are after their first boot."""
    made = UP["rack"] = Lab.up(tmp_path_factory.mktemp("rack"))
    yield made
    made.down()


@pytest.fixture(scope="session")
def gpu_rack(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two GPU nodes, which know the vendor's packages; sealed as `bare`."""
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
    """The rack; hosts that the test has touched are taken back to their first boot when it is done."""
    rack.touched.clear()
    yield rack
    rack.reset(*sorted(rack.touched))


@pytest.fixture(scope="session")
def runs(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A rack from bare hosts to a working cluster, with management controllers."""
    controllers = Controllers(tmp_path_factory.mktemp("bmc"), [f"dgx{number:02d}" for number in range(1, 5)])
    site = Site.up(tmp_path_factory.mktemp("site"), fleet_text(more=PEOPLE + controllers.fleet), controllers)
    UP["runs"] = site.lab
    try:
        with ArgumentsSeen(list(site.secrets.values())) as arguments:
            check = site.configure("--check", "--diff", code=1)
            first = site.configure()
            second = site.configure()
        site.lab.seal("site")
        site.wait_for_nodes()
        yield Runs(site, check, first, second, arguments)
    finally:
        controllers.close()
        site.lab.down()


@pytest.fixture
def site(runs: Runs) -> Site:
    """The site as it was set up, for tests that leave it so."""
    return mended(runs)


@pytest.fixture
def site_to_break(runs: Runs, request: pytest.FixtureRequest) -> Site:
    """The site as it was set up; what a test does to it is undone before the next one.

    With the mark `breaks` that is true of the hosts that it names, and all others are as they were.
    """
    made = mended(runs)
    mark = request.node.get_closest_marker("breaks")
    runs.broken = tuple(mark.args) if mark else tuple(made.lab.healthy)
    return made


def mended(runs: Runs) -> Site:
    """Takes the site back to what it was when it was set up, if a test has broken it."""
    if runs.broken:
        runs.site.lab.reset(*runs.broken, name="site")
        runs.site.wait_for_nodes()
        runs.broken = ()
    return runs.site
