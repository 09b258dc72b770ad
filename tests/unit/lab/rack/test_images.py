"""Container images of the rack's kit, as a registry hands them out."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.loading import load_source
from tests.programs import ROOT


@pytest.fixture(scope="module")
def images() -> ModuleType:
    return load_source(ROOT / "tests" / "rack" / "kit" / "cluster" / "images.py", "kit_images")


def test_image_is_stored_under_its_tag_and_digests(images: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    image = images.Image(
        "registry.k8s.io/pause:3.10.1",
        {"pause": program},
        links={"bin/p": "../pause"},
        entrypoint=("/pause",),
    )
    images.write(image, tmp_path / "registry")
    here = tmp_path / "registry" / "v2" / "pause"

    manifest = (here / "manifests" / "3.10.1").read_bytes()
    assert (here / "manifests" / digest(manifest)).read_bytes() == manifest
    listed = json.loads(manifest)
    for part in (listed["config"], *listed["layers"]):
        content = (here / "blobs" / part["digest"]).read_bytes()
        assert (digest(content), len(content)) == (part["digest"], part["size"])
    config = json.loads((here / "blobs" / listed["config"]["digest"]).read_text())
    assert config["rootfs"]["diff_ids"] == [listed["layers"][0]["digest"]]
    assert config["config"]["Entrypoint"] == ["/pause"]
    with tarfile.open(here / "blobs" / listed["layers"][0]["digest"]) as layer:
        assert layer.getmember("pause").mode == 0o755 and layer.getmember("pause").uid == 0
        assert layer.getmember("bin/p").linkname == "../pause"


def test_program_of_the_machine_has_its_libraries(images: ModuleType, tmp_path: Path) -> None:
    images.write(images.Image("docker.io/library/cp:1", host_programs=("/bin/cp",)), tmp_path)
    (layer,) = [
        path for path in (tmp_path / "v2" / "library" / "cp" / "blobs").iterdir() if tarfile.is_tarfile(path)
    ]
    with tarfile.open(layer) as content:
        names = content.getnames()
    assert "bin/cp" in names and any(name.startswith("lib") and "libc.so" in name for name in names)


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
