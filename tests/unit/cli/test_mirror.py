"""`gpufleet mirror` on a terminal and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpufleet.errors import ExitCode
from gpufleet.lab.rack import web
from gpufleet.racks.mirror.pack import PackResult
from tests.unit.cli.conftest import ROOT, Gpufleet

LAB = ROOT / "gpufleet" / "lab" / "rack" / "kubernetes.yaml"


@pytest.fixture
def fleet(workplace: Path) -> str:
    path = workplace / "lab.yaml"
    path.write_text(LAB.read_text())
    return str(path)


def test_images_are_listed_with_component_and_charts_with_repository(gpufleet: Gpufleet, fleet: str) -> None:
    answer = gpufleet("mirror", "images", fleet)
    assert answer.code == ExitCode.DONE
    rows = [line.split() for line in answer.out.splitlines() if line.strip()]
    assert ["kubernetes", "registry.k8s.io/pause:3.10.1"] in rows
    assert ["chart", "flannel", "v0.28.4", "https://flannel-io.github.io/flannel"] in rows
    assert rows[-1] == ["10", "images,", "2", "charts"]
    assert gpufleet("mirror", "images", fleet).out == answer.out


def test_json_has_names_sources_and_files(gpufleet: Gpufleet, fleet: str) -> None:
    document = gpufleet("mirror", "images", fleet, "--json").json
    assert (document["environment"], document["channel"]) == ("sandbox", "2026.11")
    (pause,) = [image for image in document["images"] if "/pause:" in image["name"]]
    assert pause["verified"] is True and pause["sites"] == ["lab"] and "kubeadm" in pause["source"]
    assert [chart["file"] for chart in document["charts"]] == ["flannel-v0.28.4.tgz", "kueue-0.19.2.tgz"]


def test_names_that_were_not_verified_have_a_mark_and_a_note(gpufleet: Gpufleet, fleet: str) -> None:
    path = Path(fleet)
    path.write_text(path.read_text().replace("cni: flannel", "cni: calico"))
    answer = gpufleet("mirror", "images", fleet)
    assert "calico*" in answer.out and "* calico: read at the release before" in " ".join(answer.out.split())


def test_an_environment_without_such_racks_is_bad_input(gpufleet: Gpufleet) -> None:
    answer = gpufleet("mirror", "images", "dev")
    assert answer.code == ExitCode.BAD_INPUT and "dev has no rack site with Kubernetes" in answer.err


def test_what_could_not_be_packed_is_printed_and_ends_with_code_4(
    gpufleet: Gpufleet, fleet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed(_needs: Any, _folder: Path, on_step: Any) -> PackResult:
        on_step("a", "copied")
        on_step("b", "failed")
        return PackResult(("a",), (), {"b": "manifest unknown"})

    monkeypatch.setattr("gpufleet.racks.mirror.pack.pack", packed)
    answer = gpufleet("mirror", "images", fleet, "--pack", "usb")
    assert answer.code == ExitCode.CLOUD_FAILURE
    assert "b: manifest unknown" in answer.err and "[2 of 12] b: failed" in answer.err
    assert "usb: 1 copied, 0 complete before, 1 failed" in answer.out and "skopeo sync" not in answer.out
    document = gpufleet("mirror", "images", fleet, "--pack", "usb", "--json").json
    assert document["failed"] == {"b": "manifest unknown"} and document["copied"] == ["a"]


def test_check_ends_with_code_1_where_something_is_missing_and_4_without_an_answer(
    gpufleet: Gpufleet, fleet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "PORT", 0)
    server = web.Repository(tmp_path / "empty", "127.0.0.1")
    server.start()
    registry = f"http://127.0.0.1:{server.port}"
    path = Path(fleet)
    path.write_text(
        path.read_text().replace("package_mirror: http://packages.rack", f"package_mirror: {registry}")
    )
    answer = gpufleet("mirror", "check", fleet, "--registry", registry)
    assert answer.code == ExitCode.REFUSED
    assert "10 images and 2 charts needed, 12 missing" in answer.out
    missing = gpufleet("mirror", "check", fleet, "--registry", registry, "--json").json["lacking"]
    assert len(missing) == 12 and {each["reason"] for each in missing} == {"not found"}
    server.stop()
    answer = gpufleet("mirror", "check", fleet, "--registry", registry)
    assert answer.code == ExitCode.CLOUD_FAILURE and "does not answer" in answer.err
