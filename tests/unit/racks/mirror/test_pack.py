"""Packing a mirror with the real skopeo, from registries on the loopback, and loading it into a real one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.catalog import HelmChart
from gpufleet.errors import ExitCode, InputError
from gpufleet.lab.rack import web
from gpufleet.racks.mirror.pack import LIST, PackResult, pack
from gpufleet.racks.mirror.skopeo import is_complete
from tests.programs import ROOT, find_program
from tests.unit.racks.mirror.registries import (
    COREDNS,
    NODE,
    PAUSE,
    Public,
    digest_at,
    needs_of,
    site_registry,
)

KUEUE = HelmChart(name="kueue", version="0.19.2", repository="oci://registry.k8s.io/kueue/charts")
FLEET = ROOT / "gpufleet" / "lab" / "rack" / "kubernetes.yaml"
GUIDE = ROOT / "docs" / "guide" / "onprem.md"
WAIT_S = 120.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "usb" / "mirror"


def packed(folder: Path, *images: str, charts: tuple[HelmChart, ...] = ()) -> PackResult:
    find_program("skopeo")
    return pack(needs_of(*images, charts=charts), folder, lambda _name, _state: None)


def listed(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / LIST).read_text()))


def images_in(folder: Path) -> dict[str, bool]:
    """Images below `images/`, as `skopeo sync` finds them, and whether each is complete."""
    top = folder / "images"
    return {
        str(path.parent.relative_to(top)): is_complete(path.parent) for path in top.rglob("manifest.json")
    }


@pytest.mark.daemon
def test_packed_images_load_into_a_registry_under_their_own_names_and_digests(
    public: Public, folder: Path, tmp_path: Path
) -> None:
    public.publish(PAUSE, COREDNS)
    listing = public.publish_list(NODE, ("amd64", "arm64"))
    assert packed(folder, PAUSE, COREDNS, NODE).failed == {}
    source = {name: digest_at(public.address, name) for name in (PAUSE, COREDNS, NODE)}
    assert source[NODE] == listing
    assert listed(folder)["images"] == {
        name.partition("/")[2]: {"name": name, "digest": digest} for name, digest in source.items()
    }
    (command,) = [line for line in GUIDE.read_text().splitlines() if line.startswith("skopeo sync ")]
    with site_registry(tmp_path) as address:
        words = command.replace("https://", "").replace("registry.dc1.example.com", address).split()
        words[0:2] = [find_program("skopeo"), "sync", "--dest-tls-verify=false"]
        words = [str(folder / "images") if word.endswith("/images") else word for word in words]
        subprocess.run(words, check=True, capture_output=True)
        assert {name: digest_at(address, name) for name in source} == source


def test_a_second_run_copies_only_what_is_missing_or_damaged(public: Public, folder: Path) -> None:
    public.publish(PAUSE, COREDNS, NODE)
    assert packed(folder, PAUSE, COREDNS, NODE).copied == (PAUSE, COREDNS, NODE)
    before = listed(folder)
    layer = folder / "images" / "coredns" / "coredns:v1.13.1" / public.layer(COREDNS).name.partition(":")[2]
    damaged = bytearray(layer.read_bytes())
    damaged[700] ^= 1
    layer.write_bytes(damaged)
    (folder / "images" / "pause:3.10.1" / "manifest.json").unlink()
    again = packed(folder, PAUSE, COREDNS, NODE)
    assert (again.copied, again.complete) == ((PAUSE, COREDNS), (NODE,))
    assert listed(folder) == before and all(images_in(folder).values())


def test_every_platform_of_a_damaged_list_is_compared(public: Public, folder: Path) -> None:
    public.publish_list(NODE, ("amd64", "arm64"))
    packed(folder, NODE)
    arm = public.layer(f"{NODE}-arm64").name.partition(":")[2]
    (folder / "images" / "calico" / "node:v3.32.2" / arm).write_bytes(b"")
    assert packed(folder, NODE).copied == (NODE,)
    assert packed(folder, NODE).complete == (NODE,)


def test_one_run_reports_every_image_and_chart_that_cannot_be_copied(public: Public, folder: Path) -> None:
    public.publish(PAUSE, COREDNS)
    layer = public.layer(PAUSE)
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")
    result = packed(folder, PAUSE, NODE, COREDNS, charts=(KUEUE,))
    assert result.copied == (COREDNS,)
    assert set(result.failed) == {PAUSE, NODE, KUEUE.file}
    assert "Digest did not match" in result.failed[PAUSE]
    assert NODE in result.failed[NODE]
    assert list(listed(folder)["images"]) == ["coredns/coredns:v1.13.1"]
    assert images_in(folder) == {"coredns/coredns:v1.13.1": True}


def test_a_damaged_image_does_not_stay_when_its_registry_is_gone(public: Public, folder: Path) -> None:
    public.publish(PAUSE, COREDNS)
    packed(folder, PAUSE, COREDNS)
    (folder / "images" / "pause:3.10.1" / "version").write_text("")
    (folder / "images" / "pause:3.10.1" / public.layer(PAUSE).name.partition(":")[2]).write_bytes(b"half")
    public.stop()
    result = packed(folder, PAUSE, COREDNS)
    assert list(result.failed) == [PAUSE] and result.complete == (COREDNS,)
    assert list(images_in(folder)) == ["coredns/coredns:v1.13.1"]
    assert list(listed(folder)["images"]) == ["coredns/coredns:v1.13.1"]


def test_list_keeps_images_of_another_site_in_the_same_folder(public: Public, folder: Path) -> None:
    public.publish(PAUSE, COREDNS)
    packed(folder, PAUSE)
    packed(folder, COREDNS)
    assert list(listed(folder)["images"]) == ["coredns/coredns:v1.13.1", "pause:3.10.1"]
    shutil.rmtree(folder / "images" / "pause:3.10.1")
    packed(folder, COREDNS)
    assert list(listed(folder)["images"]) == ["coredns/coredns:v1.13.1"]


def test_charts_are_copied_from_a_registry_and_from_a_web_folder(public: Public, folder: Path) -> None:
    public.publish_chart(KUEUE, b"archive of kueue")
    web_chart = HelmChart(
        name="flannel", version="v0.28.4", repository=f"http://{public.address}/charts/flannel"
    )
    publish_index(public, web_chart, b"archive of flannel")
    assert packed(folder, charts=(KUEUE, web_chart)).failed == {}
    assert (folder / "charts" / "kueue-0.19.2.tgz").read_bytes() == b"archive of kueue"
    assert (folder / "charts" / "flannel-v0.28.4.tgz").read_bytes() == b"archive of flannel"
    digest = hashlib.sha256(b"archive of flannel").hexdigest()
    assert listed(folder)["charts"]["flannel-v0.28.4.tgz"]["digest"] == f"sha256:{digest}"


def publish_index(public: Public, chart: HelmChart, archive: bytes, digest: str = "") -> None:
    """Write a web folder with a chart and an older version of it."""
    here = public.folder / "charts" / chart.name
    here.mkdir(parents=True)
    (here / "some.tgz").write_bytes(archive)
    entry = {"version": chart.version, "urls": ["some.tgz"], "digest": digest or sha256(archive)}
    older = {"version": "v0.1.0", "urls": ["https://example.com/older.tgz"]}
    (here / "index.yaml").write_text(yaml.safe_dump({"entries": {chart.name: [older, entry]}}))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_chart_with_another_digest_than_its_index_says_is_refused(public: Public, folder: Path) -> None:
    chart = HelmChart(name="flannel", version="v0.28.4", repository=f"http://{public.address}/charts/flannel")
    publish_index(public, chart, b"archive", digest=sha256(b"another"))
    absent = chart.model_copy(update={"version": "v9.9.9"})
    failed = packed(folder, charts=(chart, absent)).failed
    assert "the index says" in failed[chart.file]
    assert failed[absent.file].endswith("index.yaml has no flannel v9.9.9")
    assert not list(folder.rglob("*.tgz"))


def test_an_index_cannot_name_a_file_of_this_machine(public: Public, folder: Path, tmp_path: Path) -> None:
    chart = HelmChart(name="flannel", version="v0.28.4", repository=f"http://{public.address}/charts/flannel")
    publish_index(public, chart, b"archive")
    index = public.folder / "charts" / "flannel" / "index.yaml"
    index.write_text(index.read_text().replace("some.tgz", (tmp_path / "home").as_uri()))
    assert "unknown url type: file" in packed(folder, charts=(chart,)).failed[chart.file]


def test_without_skopeo_the_message_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="skopeo is not on PATH") as caught:
        pack(needs_of(PAUSE), folder, lambda _name, _state: None)
    assert "apt-get install skopeo" in caught.value.remedy
    assert not folder.exists()


class Held(web._Handler):
    """Sends half of `path` and the rest when `go_on` is set."""

    path_held = ""
    reached = threading.Event()
    go_on = threading.Event()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        if self.path.endswith(self.path_held) and not self.go_on.is_set():
            outputfile.write(source.read(5000))
            outputfile.flush()
            self.reached.set()
            self.go_on.wait(WAIT_S)
        with contextlib.suppress(OSError):
            super().copyfile(source, outputfile)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Held]]:
    monkeypatch.setattr(web, "_Handler", Held)
    Held.reached.clear()
    Held.go_on.clear()
    yield Held
    Held.go_on.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_pack_leaves_whole_images_only_and_continues(
    held: type[Held], public: Public, folder: Path, number: signal.Signals
) -> None:
    find_program("skopeo")
    script = (
        "import sys; from pathlib import Path\n"
        "from gpufleet.cli import mirror, main\n"
        "from tests.unit.racks.mirror.registries import needs_of\n"
        "class Plan: environment, software_channel = 'lab', '2026.11'\n"
        f"mirror._needs = lambda *_: (Plan, needs_of({PAUSE!r}, {COREDNS!r}, {NODE!r}))\n"
        f"sys.exit(main.main(['mirror', 'images', 'lab', '--pack', {str(folder)!r}]))\n"
    )
    public.publish(PAUSE, COREDNS, NODE)
    held.path_held = public.layer(COREDNS).name
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert held.reached.wait(WAIT_S)
        with pytest.raises(InputError, match="another run is packing"):
            packed(folder, PAUSE)
        process.send_signal(number)
        reported = " ".join(process.communicate(timeout=WAIT_S)[1].split())
    if number == signal.SIGTERM:
        assert process.returncode == ExitCode.INTERRUPTED
        assert (
            f"what is complete stays in {folder}" in reported
            and "run the same command to continue" in reported
        )
        assert list(listed(folder)["images"]) == ["pause:3.10.1"]
    assert images_in(folder) == {"pause:3.10.1": True}
    (folder / ".removed" / "of an earlier run").mkdir(parents=True)
    held.go_on.set()
    result = packed(folder, PAUSE, COREDNS, NODE)
    assert (result.complete, result.copied) == ((PAUSE,), (COREDNS, NODE))
    assert {path.name for path in folder.iterdir()} == {".partial", "images", LIST}
    assert not list((folder / ".partial").iterdir())
