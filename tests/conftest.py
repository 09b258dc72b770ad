"""Shared fixtures: a checkout per test, and the command line as a user calls it."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import forked, leftovers

pytest_plugins = (
    "tests.in_memory",
    "tests.skips",
    "tests.timings",
    "tests.unsteady",
    "tests.late",
    "tests.hung",
)

ROOT = Path(__file__).resolve().parents[1]
# The longest groups start first; started last, they would keep the others waiting. Those of racks are two
# (tests/rack/conftest.py).
LONGEST_RACKS = ("rack-cluster", "rack-sites")
LONGEST_SLOW = ("e2e", "kube", "e2e-changes", "etcd")
LONGEST_OTHERS = ("e2e-documents", "mutation", "emitted")

LONGEST_VALUE = 80

LEFT = pytest.StashKey[dict[int, str]]()
FOLDERS = itertools.count()


@pytest.hookimpl(trylast=True)  # after the hooks that assign groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order tests: groups, which one process runs, come first, and the longest of them at the start."""
    from tests import late  # a plugin, which pytest imports after this file

    longest = (*LONGEST_RACKS, *late.turned(LONGEST_SLOW), *LONGEST_OTHERS)
    places = {name: place for place, name in enumerate(longest)}

    def place(item: pytest.Item) -> int:
        mark = item.get_closest_marker("xdist_group")
        return places.get(mark.args[0], len(places)) if mark else len(places) + 1

    items.sort(key=place)
    alone = [item for item in items if not item.get_closest_marker("xdist_group")]
    items[len(items) - len(alone) :] = late.turned(alone)


def pytest_configure(config: pytest.Config) -> None:
    """The worker processes inherit the mark from the process that starts them."""
    # Output goes to pipes, with a fixed width wherever the tests start.
    os.environ.pop("COLUMNS", None)
    # Backend and login of whoever runs the tests: no stack of a test goes there.
    for name in [name for name in os.environ if name.startswith("PULUMI_")]:
        del os.environ[name]
    # A slow machine fails no test, as with hypothesis' own settings for CI.
    hypothesis.settings.register_profile(
        "untimed",
        hypothesis.settings(),
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("untimed")
    if not hasattr(config, "workerinput"):
        leftovers.mark()


@pytest.hookimpl(trylast=True)  # after the worker processes have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process still running after the tests fails the run."""
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[LEFT] = leftovers.left()
    if session.config.stash[LEFT] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print processes that are still running."""
    for number, command in config.stash.get(LEFT, {}).items():
        terminalreporter.write_line(f"ERROR: a test left process {number} at work: {command}", red=True)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten a test name with a long value; otherwise every report would repeat it."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_VALUE:
        return f"{val[:LONGEST_VALUE]!a} of {len(val)}"
    return None


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a name of its own, until the test has passed.

    pytest itself gives the name of a deleted folder to the next test; daemons and caches know it still.
    """
    label = re.sub(r"\W", "_", request.node.name)[:24]
    folder = tmp_path_factory.mktemp(f"{label}-{next(FOLDERS)}", numbered=False)
    yield folder
    from tests.unsteady import FAILED  # a plugin, as above

    if not request.node.stash.get(FAILED, False):
        shutil.rmtree(folder, ignore_errors=True)


# Ten thousand tests and their imports stay until the end: scanning them again and again for garbage
# took a quarter of the time of the test processes.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage only among new objects from here on, and less often; read AWS's models once."""
    if "botocore.session" in sys.modules:
        share_models()
    if "moto" in sys.modules:
        from gpufleet.lab.aws.server.caches import cache_moto

        cache_moto()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def share_models() -> None:
    """Let all sessions of botocore in this process share the models of services, which never change.

    Each session would read them again: EC2's takes a third of a second, and most tests open a session.
    """
    import botocore.session

    create = botocore.session.create_loader

    @functools.cache
    def created(path: str | None) -> Any:
        loader = create(path)
        load = loader.load_service_model

        def load_model(service_name: str, *more: Any, **named: Any) -> Any:
            found = load(service_name, *more, **named)
            # Clients of S3 take the bucket out of the paths in their model.
            return copy.deepcopy(found) if service_name == "s3" else found

        loader.load_service_model = load_model
        return loader

    def shared(path: str | None = None) -> Any:
        loader = created(path)
        # Each session of boto3 adds its own folder.
        loader.search_paths[:] = dict.fromkeys(loader.search_paths)
        return loader

    botocore.session.create_loader = shared


@dataclass
class Checkout:
    """A checkout in a temporary folder, with its own state and emulated AWS."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        timeout_s: float = 600,
    ) -> Any:
        """Run `gpufleet <arguments>` as a process; returns text output, with any exit code."""
        command = [*prefix, sys.executable, "-m", "gpufleet.cli.main", *arguments]
        return forked.run(
            command, cwd=self.root, env=os.environ | self.env | (env or {}), timeout_s=timeout_s
        )

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        """The object that the command ends with under --json; asserts its exit code."""
        done = self.run(*arguments, "--json", **options)
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])


def make_checkout(folder: Path) -> Checkout:
    """Copy the program folders of this checkout into `folder`."""
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    for name in ("stacks", "ansible", "policies"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    link = folder / "gpufleet" / "collections" / "ansible_collections" / "gpufleet" / "rack"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder / "ansible")
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    return Checkout(folder, {"HOME": str(folder / "home"), "GPUFLEET_ROOT": ""})


def fork_packages(root: Path) -> None:
    """Make `gpufleet` in `root` a package with the components, stacks and policies of `root`.

    Everything else in it belongs to this checkout, so that its bytecode is used.
    """
    package = root / "gpufleet"
    package.mkdir()
    text = (ROOT / "gpufleet" / "__init__.py").read_text(encoding="utf-8")
    (package / "__init__.py").write_text(
        f"{text}__path__.append({str(ROOT / 'gpufleet')!r})\n", encoding="utf-8"
    )
    for name in ("components", "stacks", "policies"):
        (package / name).symlink_to(Path("..", name))


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """A checkout for one test; its emulated AWS is stopped at the end."""
    made = make_checkout(tmp_path)
    yield made
    made.run("sandbox", "stop")


@pytest.fixture(scope="module")
def shared_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout that the tests of one module use in order."""
    made = make_checkout(tmp_path_factory.mktemp("checkout"))
    yield made
    made.run("sandbox", "stop")
