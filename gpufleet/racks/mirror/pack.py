"""A folder with the images and charts of a mirror, to be carried to the site.

    images/<repository>:<tag>/    one image in skopeo's transport `dir`, named as the mirror names it
    charts/<name>-<version>.tgz   one chart, for the folder `charts/` of the site's package mirror
    mirror.json                   everything that is complete, with digests

What is being copied lies in `.partial/` and gets its name when it is whole. The next run compares what is
there with its digests, and copies only what is missing or damaged.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import InputError, InterruptionError
from gpufleet.files import put, write_atomically
from gpufleet.racks.mirror.charts import read_chart
from gpufleet.racks.mirror.needs import NeededChart, NeededImage, Needs
from gpufleet.racks.mirror.skopeo import CopyError, copy_image, find_skopeo, is_complete, manifest_digest

LIST = "mirror.json"
_PARTIAL = ".partial"
_REMOVED = ".removed"

OnStep = Callable[[str, str], None]
"""Called after each image and chart, with its name and `copied`, `complete` or `failed`."""


class PackResult(Struct, frozen=True):
    """What a run has copied, what was complete before, and why the rest could not be copied, by name."""

    copied: tuple[str, ...]
    complete: tuple[str, ...]
    failed: dict[str, str]


def pack(needs: Needs, folder: Path, on_step: OnStep) -> PackResult:
    """Copy images and charts into `folder`. One that fails does not end the run.

    Raises InputError if skopeo is missing or another run writes to the folder, InterruptionError when it is
    interrupted.
    """
    packing = _Packing(find_skopeo(), folder, on_step)
    with _locked(folder):
        try:
            for image in needs.images:
                packing.step(image.name, partial(packing.image, image))
            for chart in needs.charts:
                packing.step(chart.chart.file, partial(packing.chart, chart))
        except KeyboardInterrupt:
            raise InterruptionError(f"what is complete stays in {folder}") from None
        finally:
            packing.write_list()
    done = packing.states
    return PackResult(
        tuple(name for name, state in done.items() if state == "copied"),
        tuple(name for name, state in done.items() if state == "complete"),
        packing.failed,
    )


class _Packing:
    """One run, and the list of what the folder holds: of this run, and of earlier ones."""

    def __init__(self, skopeo: str, folder: Path, on_step: OnStep) -> None:
        self._skopeo = skopeo
        self._folder = folder
        self._on_step = on_step
        self._images: dict[str, dict[str, Any]] = {}
        self._charts: dict[str, dict[str, Any]] = {}
        self.states: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def step(self, name: str, copy: Callable[[], str]) -> None:
        """Run one copy and note its end."""
        try:
            self.states[name] = copy()
        except CopyError as error:
            self.states[name] = "failed"
            self.failed[name] = str(error)
        self._on_step(name, self.states[name])

    def image(self, image: NeededImage) -> str:
        """Copy an image unless it is complete."""
        kept = self._folder / "images" / image.path
        state = "complete"
        if not is_complete(kept):
            state = "copied"
            shutil.rmtree(kept, ignore_errors=True)
            # A new name each time: the skopeo of a run that was killed may still write to its own.
            copied = Path(tempfile.mkdtemp(dir=self._folder / _PARTIAL))
            copy_image(self._skopeo, image.name, copied)
            copied.chmod(0o755)
            kept.parent.mkdir(parents=True, exist_ok=True)
            copied.replace(kept)
        self._images[image.path] = {"name": image.name, "digest": manifest_digest(kept)}
        return state

    def chart(self, needed: NeededChart) -> str:
        """Copy a chart. They are small, and only their repository knows their digest."""
        chart = needed.chart
        archive = read_chart(chart, self._skopeo, self._folder / _PARTIAL)
        path = self._folder / "charts" / chart.file
        path.parent.mkdir(exist_ok=True)
        put(path, archive, mode=0o644)
        self._charts[chart.file] = chart.model_dump() | {
            "digest": f"sha256:{hashlib.sha256(archive).hexdigest()}"
        }
        return "copied"

    def write_list(self) -> None:
        """Write the list of everything in the folder, after all of it has reached the disk."""
        path = self._folder / LIST
        before: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            before = json.loads(path.read_bytes())
        images = _still_there(before.get("images"), self._folder / "images") | self._images
        charts = _still_there(before.get("charts"), self._folder / "charts") | self._charts
        os.sync()
        document = {"images": dict(sorted(images.items())), "charts": dict(sorted(charts.items()))}
        write_atomically(path, json.dumps(document, indent=1) + "\n")


def _still_there(listed: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """Entries of an earlier list whose image or chart the folder still has."""
    entries = listed if isinstance(listed, dict) else {}
    return {name: entry for name, entry in entries.items() if (folder / name).exists()}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one run at a time write to the folder, and start without leftovers of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another run is packing into {folder}",
                remedy="wait until it has ended, or use another folder",
            ) from None
        _remove_leftovers(folder)
        (folder / _PARTIAL).mkdir()
        yield
    finally:
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Remove what earlier runs did not complete.

    The skopeo of a run that was killed may still add and remove files there. It cannot under another name.
    """
    removed = folder / _REMOVED
    for path in (removed, folder / _PARTIAL):
        if path.exists():
            path.replace(removed)
            shutil.rmtree(removed)
