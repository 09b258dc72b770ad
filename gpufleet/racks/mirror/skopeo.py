"""Copies of images by skopeo, into folders of its transport `dir` (containers-transports(5)).

Such a folder has `manifest.json`, each blob under the hex of its digest, and for a list of platforms the
manifest of each as `<hex>.manifest.json`. All platforms are copied: charts may name the digest of the list.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError

MANIFEST = "manifest.json"
_TRIES = "3"
_MESSAGE = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')


class CopyError(Exception):
    """skopeo could not copy an image; the text says why."""


def find_skopeo() -> str:
    """Return the path of skopeo. Raises InputError if it is not installed."""
    path = shutil.which("skopeo")
    if path is None:
        raise InputError(
            "skopeo is not on PATH: it copies the images",
            remedy="install it (Debian and Ubuntu: `apt-get install skopeo`), then run the command again",
        )
    return path


def copy_image(skopeo: str, name: str, folder: Path) -> None:
    """Copy an image into `folder`, with the credentials of `skopeo login`. Raises CopyError.

    skopeo compares each blob with its digest, and a manifest with that of the list.
    """
    command = [skopeo, "copy", "--quiet", "--all", "--retry-times", _TRIES]
    done = subprocess.run(  # noqa: S603 - no shell; names are the catalog's
        [*command, f"docker://{name}", f"dir:{folder}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        found = _MESSAGE.search(done.stderr)
        lines = done.stderr.strip().splitlines() or [f"skopeo ended with exit code {done.returncode}"]
        raise CopyError(json.loads(f'"{found[1]}"') if found else lines[-1])


def is_complete(folder: Path) -> bool:
    """Return whether a folder has all files of an image, each with the content of its digest."""
    try:
        return all(_digest(path, algorithm) == digest for path, algorithm, digest in _files(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def manifest_digest(folder: Path) -> str:
    """Return the digest by which registries know the image."""
    return f"sha256:{_digest(folder / MANIFEST, 'sha256')}"


def layers(folder: Path) -> list[Mapping[str, Any]]:
    """Return the descriptors of the layers, each with its `mediaType` and `digest`."""
    return list(json.loads((folder / MANIFEST).read_bytes())["layers"])


def blob(folder: Path, digest: str) -> Path:
    """Return the path of a blob."""
    return folder / digest.partition(":")[2]


def _files(folder: Path, manifest: str = MANIFEST) -> Iterator[tuple[Path, str, str]]:
    """All files that manifests name, as path, algorithm and hex of the digest."""
    document = json.loads((folder / manifest).read_bytes())
    for each in document.get("manifests", ()):
        algorithm, _, digest = each["digest"].partition(":")
        yield folder / f"{digest}.{MANIFEST}", algorithm, digest
        yield from _files(folder, f"{digest}.{MANIFEST}")
    if "manifests" not in document:
        for each in (document["config"], *document["layers"]):
            # A layer with addresses of its own (of Windows) stays there and is never copied.
            if not each.get("urls"):
                algorithm, _, digest = each["digest"].partition(":")
                yield blob(folder, each["digest"]), algorithm, digest


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()
