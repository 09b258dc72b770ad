"""The package repository: files over HTTP, and gone when it is taken away."""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.lab.rack import web


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[web.Repository]:
    monkeypatch.setattr(web, "PORT", 0)
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian" / "a.deb").write_bytes(bytes(range(256)) * 4096)
    made = web.Repository(tmp_path, "127.0.0.1")
    made.start()
    yield made
    made.stop()


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_files_are_served_completely_and_folders_are_not_listed(repository: web.Repository) -> None:
    assert get(repository.port, "/debian/a.deb") == (200, bytes(range(256)) * 4096)
    assert get(repository.port, "/debian/")[0] == 404
    assert get(repository.port, "/debian/b.deb")[0] == 404


def test_manifests_have_the_media_type_of_a_registry(repository: web.Repository, tmp_path: Path) -> None:
    manifests = tmp_path / "v2" / "pause" / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "3.10.1").write_text("{}")
    with urllib.request.urlopen(
        f"http://127.0.0.1:{repository.port}/v2/pause/manifests/3.10.1", timeout=10
    ) as answer:
        assert answer.headers["Content-Type"] == "application/vnd.oci.image.manifest.v1+json"
    assert get(repository.port, "/v2/")[0] == 200
    assert get(repository.port, "/v2/pause/")[0] == 404


def test_removed_repository_refuses_new_connections_and_cuts_open_ones(
    repository: web.Repository,
) -> None:
    port = repository.port
    waiting = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    waiting.request("GET", "/debian/a.deb")
    assert waiting.getresponse().read(10) == bytes(range(10))

    repository.stop()

    assert not repository.on
    with pytest.raises(ConnectionError):
        get(port, "/debian/a.deb")
    waiting.close()
    repository.start()
    assert get(repository.port, "/debian/a.deb")[0] == 200
