"""Repositories: trusted by a known fingerprint, tested with keys made by gpg."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import openpgp

from tests.unit.ansible.collection.conftest import load

Run = Callable[..., dict[str, Any]]


def gpg(home: Path, *words: str) -> bytes:
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Two keys as gpg made them: fingerprints, and what it exports."""
    home = tmp_path_factory.mktemp("g")
    home.chmod(0o700)
    found: dict[str, Any] = {}
    try:
        for name, kind in (("vendor", "rsa2048"), ("thief", "ed25519")):
            user = f"{name}@example.com"
            gpg(home, "--passphrase", "", "--quick-generate-key", user, kind, "sign", "never")
            reported = gpg(home, "--with-colons", "--list-keys", user).decode()
            found[name] = next(line.split(":")[9] for line in reported.splitlines() if line.startswith("fpr"))
        vendor = found["vendor"]
        gpg(home, "--passphrase", "", "--quick-add-key", vendor, "rsa2048", "sign", "never")
        found["armored"] = gpg(home, "--armor", "--export", vendor)
        found["binary"] = gpg(home, "--export", vendor)
        found["both"] = gpg(home, "--armor", "--export")
        found["foreign"] = gpg(home, "--armor", "--export", found["thief"])
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
    yield found


@pytest.fixture
def served() -> Iterator[dict[str, bytes]]:
    """Files of a web server; `url` is its address, `asked` the number of requests."""
    pages: dict[str, Any] = {"asked": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages["asked"] += 1
            body = pages.get(self.path.strip("/"))
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            """No log."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    pages["url"] = f"http://127.0.0.1:{server.server_port}"
    yield pages
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module with apt's folders in a temporary place."""
    loaded = load("repositories")
    for name, folder in (
        ("SOURCES", "sources.list.d"),
        ("KEYS", "keyrings"),
        ("PREFERENCES", "preferences.d"),
    ):
        (tmp_path / "apt" / folder).mkdir(parents=True)
        monkeypatch.setattr(loaded, name, tmp_path / "apt" / folder)
    monkeypatch.setattr(loaded.time, "sleep", lambda _: None)
    return loaded


def entry(served: dict[str, Any], keys: dict[str, Any], **changes: Any) -> dict[str, Any]:
    item = {
        "name": "cuda",
        "url": "https://example.com/cuda",
        "key_url": f"{served['url']}/key",
        "fingerprint": keys["vendor"],
        "priority": 600,
    }
    return item | changes


@pytest.mark.fresh
@pytest.mark.parametrize("form", ["armored", "binary", "both"])
def test_key_fingerprint_equals_that_of_gpg(form: str, keys: dict[str, Any]) -> None:
    found = openpgp.keys_in(keys[form])
    assert set(found) == {keys["vendor"]} | ({keys["thief"]} if form == "both" else set())
    # With its subkey and signatures, byte for byte.
    assert found[keys["vendor"]] == keys["binary"]


def test_only_the_named_key_of_several_is_trusted(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run
) -> None:
    served["key"] = keys["both"]
    done = run(module, repositories=[entry(served, keys)])
    assert done["changed"]
    keyring = module.KEYS / "gpufleet-cuda.gpg"
    assert keyring.read_bytes() == keys["binary"]
    source = (module.SOURCES / "gpufleet-cuda.list").read_text().splitlines()[-1]
    assert source == f"deb [signed-by={keyring}] https://example.com/cuda ./"
    pin = (module.PREFERENCES / "gpufleet-repository-cuda").read_text()
    assert 'Pin: origin "example.com"' in pin and "Pin-Priority: 600" in pin
    # The key exists: no download.
    assert not run(module, repositories=[entry(served, keys)])["changed"]
    assert served["asked"] == 1


def test_check_mode_reports_the_same_without_network(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run, tmp_path: Path
) -> None:
    served["key"] = keys["armored"]
    predicted = run(module, check=True, repositories=[entry(served, keys)])
    assert served["asked"] == 0 and not list((tmp_path / "apt").rglob("gpufleet*"))
    assert predicted["changed_files"] == run(module, repositories=[entry(served, keys)])["changed_files"]


def test_key_with_another_fingerprint_is_refused_and_nothing_is_added(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run, tmp_path: Path
) -> None:
    served["key"] = keys["foreign"]
    refused = run(module, repositories=[entry(served, keys)])
    assert keys["thief"] in refused["msg"] and keys["vendor"] in refused["msg"]
    assert not list((tmp_path / "apt").rglob("gpufleet*"))


@pytest.mark.parametrize("text", [b"<html>blocked by the proxy</html>", b"", b"\x99\x01"])
def test_file_that_is_not_a_key_is_refused(
    text: bytes, keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run
) -> None:
    served["key"] = text
    reported = run(module, repositories=[entry(served, keys)])["msg"]
    assert "nothing was added" in reported or "could not be downloaded" in reported


@pytest.mark.parametrize("fingerprint", ["", "A4B469963BF863CC", "trust me"])
def test_short_fingerprint_is_refused_before_any_download(
    fingerprint: str, keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run
) -> None:
    refused = run(module, repositories=[entry(served, keys, fingerprint=fingerprint)], check=True)
    assert "40 hexadecimal digits" in refused["msg"] and "package_mirror" in refused["msg"]
    assert served["asked"] == 0


def test_repository_of_the_system_is_left_unchanged(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run
) -> None:
    theirs = module.SOURCES / "cuda-compute-repo.sources"
    theirs.write_text("Types: deb\nURIs: http://example.com/cuda/\nSuites: /\n")
    done = run(module, repositories=[entry(served, keys)])
    assert not done["changed"] and done["elsewhere"] == {"cuda": str(theirs)}
    theirs.write_text("# URIs: https://example.com/cuda/\n")
    served["key"] = keys["armored"]
    assert run(module, repositories=[entry(served, keys)])["changed"]


def test_removed_sources_are_deleted_with_their_keys_and_others_stay(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run, tmp_path: Path
) -> None:
    served["key"] = keys["armored"]
    (module.SOURCES / "own.list").write_text("deb https://own.example.com stable main\n")
    (module.PREFERENCES / "gpufleet-nvidia-driver").touch()  # of another role
    run(module, repositories=[entry(served, keys)])
    mirror = {"name": "mirror", "url": "http://mirror.example.com/vendor"}
    assert run(module, repositories=[mirror])["changed"]
    assert sorted(path.name for path in (tmp_path / "apt").rglob("*") if path.is_file()) == [
        "gpufleet-mirror.list",
        "gpufleet-nvidia-driver",
        "own.list",
    ]
    text = (module.SOURCES / "gpufleet-mirror.list").read_text()
    assert text.endswith("deb http://mirror.example.com/vendor ./\n")


def test_key_may_be_a_file_of_the_host_and_only_the_named_key_is_kept(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "vendor.gpg"
    file.write_bytes(keys["both"])
    done = run(module, repositories=[entry(served, keys, key_url=str(file))])
    assert done["changed"] and served["asked"] == 0
    kept = (module.KEYS / "gpufleet-cuda.gpg").read_bytes()
    assert set(openpgp.keys_in(kept)) == {keys["vendor"]}
    assert not run(module, repositories=[entry(served, keys, key_url=str(file))])["changed"]


def test_missing_key_file_is_refused(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run, tmp_path: Path
) -> None:
    refused = run(module, repositories=[entry(served, keys, key_url=str(tmp_path / "none.gpg"))])
    assert "could not be read" in refused["msg"] and not list(module.SOURCES.iterdir())


def test_keyring_of_a_mirror_must_exist(module: ModuleType, run: Run, tmp_path: Path) -> None:
    mirror = {"name": "mirror", "url": "http://m.example.com/vendor", "keyring": str(tmp_path / "none.gpg")}
    assert "is not on the host" in run(module, repositories=[mirror])["msg"]
    (tmp_path / "none.gpg").touch()
    assert run(module, repositories=[mirror])["changed"]


def test_unreachable_server_is_named(
    keys: dict[str, Any], served: dict[str, Any], module: ModuleType, run: Run
) -> None:
    reported = run(module, repositories=[entry(served, keys)])["msg"]
    assert "could not be downloaded" in reported and "404" in reported and served["asked"] == 3
