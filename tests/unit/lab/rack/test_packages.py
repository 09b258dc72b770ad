"""The vendor's part of a rack's package repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.lab.rack import packages


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The packages of a kit's `vendor` and of its `cluster`; Debian's are neither downloaded nor indexed."""
    for step in ("_download", "_index_debian", "_index_flat", "_sign"):
        monkeypatch.setattr(packages, step, lambda *_: None)
    for name, content in (("vendor/toolkit.deb", "stand-in"), ("vendor/other.deb", "other")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "cluster/packages").mkdir(parents=True)
    (tmp_path / "cluster/packages/toolkit.deb").write_text("real")
    return {name: tmp_path / name for name in ("vendor", "cluster", "cache")}


def test_package_of_a_cluster_takes_the_place_of_the_vendors_and_changes_no_cached_file(
    folders: dict[str, Path],
) -> None:
    vendor, cluster, cache = folders["vendor"], folders["cluster"], folders["cache"]
    made = packages.repository(cache, Path("/bookworm/root"), vendor, print, cluster) / "vendor"
    assert {path.name: path.read_text() for path in made.glob("*.deb")} == {
        "toolkit.deb": "real",
        "other.deb": "other",
    }
    assert (vendor / "toolkit.deb").read_text() == "stand-in"
    without = packages.repository(cache, Path("/bookworm/root"), vendor, print) / "vendor"
    assert (without / "toolkit.deb").read_text() == "stand-in"


def test_repository_serves_images_and_charts_when_its_cache_was_moved(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    cache, cluster = folders["cache"], folders["cache"] / "kubernetes-1"
    for name in ("charts", "registry/v2", "packages"):
        (cluster / name).mkdir(parents=True)
    made = packages.repository(cache, Path("/bookworm/root"), folders["vendor"], print, cluster)
    moved = cache.rename(tmp_path / "home") / made.name
    assert [(moved / name).is_dir() for name in ("charts", "v2")] == [True, True]


def test_link_to_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    (tmp_path / "linked").hardlink_to(tmp_path / "old")
    with pytest.raises(FileExistsError):
        packages._hard_link(tmp_path / "new", tmp_path / "linked")
    assert (tmp_path / "old").read_text() == "old"
