"""Container images from local files, and the folder of a registry with them.

A registry that only hands out images is a folder: `v2/<repository>/manifests/<tag or digest>` and
`v2/<repository>/blobs/<digest>` (OCI Distribution Specification 1.1, Pull).
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"


@dataclass(frozen=True)
class Image:
    """An image: its name with the registry's host and a tag, and its files by their path in it.

    `host_programs` are programs of this machine, each at its own path. Every program gets its libraries.
    """

    name: str
    files: dict[str, Path] = field(default_factory=dict)
    host_programs: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ("tmp",)
    entrypoint: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    user: str = ""

    @property
    def repository(self) -> str:
        """Its path in a registry."""
        return self.name.rpartition(":")[0].partition("/")[2]

    @property
    def tag(self) -> str:
        """Its tag."""
        return self.name.rpartition(":")[2]


def write(image: Image, registry: Path) -> None:
    """Add an image to the folder of a registry."""
    here = registry / "v2" / image.repository
    blobs = here / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    layer, digest, size = _layer(image, blobs)
    layer.rename(blobs / digest)
    variables = {"PATH": PATH, **image.environment}
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": [f"{name}={value}" for name, value in variables.items()],
                "Entrypoint": list(image.entrypoint) or None,
                "User": image.user,
            },
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": _digest(config), "size": len(config)},
            "layers": [{"mediaType": LAYER, "digest": digest, "size": size}],
        }
    )
    (blobs / _digest(config)).write_bytes(config)
    manifests = here / "manifests"
    manifests.mkdir(exist_ok=True)
    for name in (image.tag, _digest(manifest)):
        (manifests / name).write_bytes(manifest)


def _layer(image: Image, folder: Path) -> tuple[Path, str, int]:
    """The image's files as a tar: its path, digest and size in bytes."""
    path = folder / "layer.new"
    with tarfile.open(path, "w") as tar:
        for name in image.folders:
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(made)
        files = {**{path[1:]: Path(path) for path in image.host_programs}, **image.files}
        for name, source in sorted({**_libraries(files.values()), **files}.items()):
            made = tar.gettarinfo(str(source.resolve()), name)
            made.uid = made.gid = 0
            made.uname = made.gname = "root"
            made.mtime = 0
            with source.open("rb") as content:
                tar.addfile(made, content)
        for name, target in image.links.items():
            made = tarfile.TarInfo(name)
            made.type, made.linkname = tarfile.SYMTYPE, target
            tar.addfile(made)
        passwd = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
        made = tarfile.TarInfo("etc/passwd")
        made.size = len(passwd)
        tar.addfile(made, io.BytesIO(passwd))
    with path.open("rb") as content:
        digest = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
    return path, digest, path.stat().st_size


def _libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """What programs load, by its path. It is of this machine, where they were built."""
    found: dict[str, Path] = {}
    for program in programs:
        # Nothing for a program without a dynamic linker.
        text = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= {word[1:]: Path(word) for word in text.split() if word.startswith("/") and ":" not in word}
    return found


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
