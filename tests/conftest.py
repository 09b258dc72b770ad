"""What all tests share: a checkout of their own, and the command line as a user calls it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import forked, leftovers

pytest_plugins = ("tests.skips", "tests.timings", "tests.unsteady")

ROOT = Path(__file__).resolve().parents[1]
# What takes longest is begun first; a process that begins it last would keep the others waiting. With nothing
# cached yet, all racks wait for one root file system: kube compiles meanwhile.
LONGEST = (
    "rack-sites",
    "rack-hosts",
    "kube",
    "rack-gpus",
    "e2e",
    "e2e-changes",
    "e2e-documents",
    "mutation",
    "emitted",
)

LONGEST_VALUE = 80

LEFT = pytest.StashKey[dict[int, str]]()


@pytest.hookimpl(trylast=True)  # after those that name the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups of tests, which one process runs, come before all other tests, and the longest of them first."""
    places = {name: place for place, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        mark = item.get_closest_marker("xdist_group")
        return places.get(mark.args[0], len(places)) if mark else len(places) + 1

    items.sort(key=place)


def pytest_configure(config: pytest.Config) -> None:
    """The processes that run tests have the mark from the one that starts them."""
    # Output goes to pipes, and has their width wherever the tests are started.
    os.environ.pop("COLUMNS", None)
    if not hasattr(config, "workerinput"):
        leftovers.mark()


@pytest.hookimpl(trylast=True)  # after the processes that run tests have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What tests have left at work is a failure of the run."""
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[LEFT] = leftovers.left()
    if session.config.stash[LEFT] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Names what is left at work."""
    for number, command in config.stash.get(LEFT, {}).items():
        terminalreporter.write_line(f"ERROR: a test left process {number} at work: {command}", red=True)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Begins the name of a test with a long value; the whole value would be in every report of it."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_VALUE:
        return f"{val[:LONGEST_VALUE]!a} of {len(val)}"
    return None


# Ten thousand tests and what they import stay until the end: looking through them for garbage again and again
# was a quarter of the time that the test processes themselves took.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for among what is new, and not as often."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


@dataclass
class Checkout:
    """A checkout in a temporary folder, with its own state and its own emulated AWS."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> Any:
        """`gpufleet <arguments>` as a process; returns it with text output, whatever its exit code."""
        command = [*prefix, sys.executable, "-m", "gpufleet.cli.main", *arguments]
        return forked.run(command, cwd=self.root, env=os.environ | self.env | (env or {}), timeout_s=600)

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        """The object that the command ends with under --json; asserts its exit code."""
        done = self.run(*arguments, "--json", **options)
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])


def make_checkout(folder: Path) -> Checkout:
    """Copies the program folders of this checkout into `folder`."""
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    for name in ("stacks", "ansible", "policies"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    link = folder / "gpufleet" / "collections" / "ansible_collections" / "gpufleet" / "rack"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder / "ansible")
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    return Checkout(folder, {"HOME": str(folder / "home"), "GPUFLEET_ROOT": ""})


def fork_packages(root: Path) -> None:
    """Makes `gpufleet` in `root` a package that has components, stacks and policies of `root`.

    Everything else in it is that of this checkout, so that its bytecode is used.
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
    """A checkout of one test; its emulated AWS is stopped at the end."""
    made = make_checkout(tmp_path)
    yield made
    made.run("sandbox", "stop")


@pytest.fixture(scope="module")
def shared_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout that the tests of one module go through in order."""
    made = make_checkout(tmp_path_factory.mktemp("checkout"))
    yield made
    made.run("sandbox", "stop")
