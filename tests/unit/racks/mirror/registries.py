"""Registries on the loopback: one that stands for all public ones, and one as a site has it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from gpufleet.catalog import HelmChart
from gpufleet.lab.rack import web
from gpufleet.racks.mirror.charts import ARCHIVE
from gpufleet.racks.mirror.needs import NeededChart, NeededImage, Needs
from tests.programs import ROOT, find_program

PAUSE, NODE, COREDNS = (
    "registry.k8s.io/pause:3.10.1",
    "quay.io/calico/node:v3.32.2",
    "registry.k8s.io/coredns/coredns:v1.13.1",
)
INDEX = "application/vnd.oci.image.index.v1+json"
HOSTS = ("registry.k8s.io", "quay.io", "ghcr.io", "nvcr.io")
_STARTS_S = 300.0


def _kit(name: str) -> ModuleType:
    """A module of the rack's kit, which writes images for the rack's own registry."""
    path = ROOT / "tests" / "rack" / "kit" / "cluster" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"kit_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KIT = _kit("images")


def needs_of(*images: str, charts: Sequence[HelmChart] = ()) -> Needs:
    """Needs of one site, `dc1`, without its plan."""
    return Needs(
        (),
        tuple(NeededImage(name, "kubernetes", ("dc1",), "", "") for name in images),
        tuple(NeededChart(chart, ("dc1",)) for chart in charts),
    )


class Public:
    """What skopeo finds behind the names of public registries: the registry `folder`, over HTTP."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self._server = web.Repository(folder, "127.0.0.1")
        self._server.start()
        self.address = f"127.0.0.1:{self._server.port}"
        # containers-registries.conf(5): a user's own file comes before the system's.
        config = home / ".config" / "containers" / "registries.conf"
        config.parent.mkdir(parents=True)
        config.write_text(
            "".join(
                f'[[registry]]\nprefix = "{host}"\nlocation = "{self.address}"\ninsecure = true\n'
                for host in HOSTS
            )
        )

    def publish(self, *names: str) -> None:
        """Write images, each with a file of its own."""
        source = self.folder / "content"
        for name in names:
            source.write_text(name * 1000)
            KIT.write(KIT.Image(name, {"content": source}), self.folder)

    def publish_list(self, name: str, platforms: Sequence[str]) -> str:
        """Write an image of several platforms and return the digest of its list."""
        entries = []
        for platform in platforms:
            tagged = f"{name}-{platform}"
            self.publish(tagged)
            manifest = self.manifest(tagged).read_bytes()
            entries.append(
                {
                    "mediaType": KIT.MANIFEST,
                    "digest": f"sha256:{hashlib.sha256(manifest).hexdigest()}",
                    "size": len(manifest),
                    "platform": {"os": "linux", "architecture": platform},
                }
            )
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        content = json.dumps(document).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        for path in (self.manifest(name), self.manifest(name).with_name(digest)):
            path.write_bytes(content)
        return digest

    def publish_chart(self, chart: HelmChart, archive: bytes) -> None:
        """Write a chart as an artifact of a registry (helm.sh, "Use OCI-based registries")."""
        here = self.folder / "v2" / chart.repository.split("/", 3)[3] / chart.name
        blobs, manifests = here / "blobs", here / "manifests"
        for folder in (blobs, manifests):
            folder.mkdir(parents=True)
        described = []
        for content, kind in ((b"{}", "application/vnd.cncf.helm.config.v1+json"), (archive, ARCHIVE)):
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            (blobs / digest).write_bytes(content)
            described.append({"mediaType": kind, "digest": digest, "size": len(content)})
        document = {"mediaType": KIT.MANIFEST, "config": described[0], "layers": described[1:]}
        (manifests / chart.version).write_text(json.dumps({"schemaVersion": 2} | document))

    def manifest(self, name: str) -> Path:
        """The file of an image's manifest."""
        repository, _, tag = name.partition("/")[2].rpartition(":")
        return self.folder / "v2" / repository / "manifests" / tag

    def layer(self, name: str) -> Path:
        """The file of an image's first layer."""
        digest = json.loads(self.manifest(name).read_text())["layers"][0]["digest"]
        return self.manifest(name).parents[1] / "blobs" / str(digest)

    def stop(self) -> None:
        """End the server."""
        self._server.stop()


@contextlib.contextmanager
def site_registry(folder: Path) -> Iterator[str]:
    """Debian's docker-registry, which starts empty: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "registry.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'store'}}}}}\nhttp: {{addr: '{address}'}}\n"
    )
    command = [find_program("docker-registry"), "serve", str(config)]
    path = folder / "registry.log"
    with path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + _STARTS_S
            while not _answers(address):
                assert process.poll() is None and time.monotonic() < deadline, path.read_text()
                time.sleep(0.05)
            yield address
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=5):
            return True
    except OSError:
        return False


def digest_at(address: str, name: str) -> str:
    """The digest of an image's manifest or list, as a registry hands it out."""
    repository, _, tag = name.partition("/")[2].rpartition(":")
    accept = {"Accept": f"{INDEX}, {KIT.MANIFEST}"}
    request = urllib.request.Request(f"http://{address}/v2/{repository}/manifests/{tag}", headers=accept)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return f"sha256:{hashlib.sha256(answer.read()).hexdigest()}"


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Public]:
    monkeypatch.setattr(web, "PORT", 0)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "public"
    folder.mkdir()
    server = Public(folder, home)
    yield server
    server.stop()
