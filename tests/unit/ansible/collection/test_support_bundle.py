"""A support bundle: secrets are removed by value and pattern, sizes are limited, missing parts are named."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
PLANTED = "Zq7planted4Secret9value"


@pytest.fixture
def bundle(tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loaded = load("support_bundle")
    for name in ("journalctl", "systemctl"):
        programs.add(name, "exit 0")
    monkeypatch.setattr(
        loaded, "COMMANDS", {"system/release": ["release"], "system/none": ["no-such-program"]}
    )
    monkeypatch.setattr(loaded, "FILES", (f"{tmp_path}/etc/*.conf", "/proc/version"))
    monkeypatch.setattr(loaded, "NEVER", (f"{tmp_path}/private",))
    (tmp_path / "etc").mkdir()
    programs.add("release", "echo all is well")
    return loaded


@pytest.fixture
def join() -> ModuleType:
    return load("support_join")


def texts(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read().decode() for entry in archive}  # type: ignore[union-attr]


@pytest.fixture
def redaction(bundle: ModuleType) -> ModuleType:
    return sys.modules["ansible_collections.gpufleet.rack.plugins.module_utils.redaction"]


@pytest.mark.parametrize(
    "line",
    [
        f"StoragePass={PLANTED}",
        f"password: {PLANTED}",
        f'"api_key": "{PLANTED}"',
        f"db_password = '{PLANTED} and more'",
        f"run --token {PLANTED} now",
        f"NGC_API_KEY={PLANTED}",
        f"Authorization: Basic {PLANTED}",
        f"curl -H 'authorization: Bearer {PLANTED}'",
        f"http://user:{PLANTED}@mirror.example.com/x",
        f"https://user:a/{PLANTED}/b@mirror.example.com/x",
        f"api_url: https://hooks.slack.com/services/T012AB/B034CD/{PLANTED}",
        f"machine mirror.example.com\n  login rack\n  password {PLANTED}\n",
        f"default login rack password {PLANTED}",
        f"curl -sS -u rack:{PLANTED} https://mirror.example.com",
        f"curl --user 'rack:{PLANTED}' https://mirror.example.com",
        f"mysqldump -h ctl01 -u slurm -p {PLANTED} slurm_acct_db",
        f"mysql -u slurm -p{PLANTED} slurm_acct_db",
        f"docker login -u rack -p {PLANTED} nvcr.io",
        f"mysql --password={PLANTED}",
        f"StoragePass   =   {PLANTED}",
        f"api key : {PLANTED}",
        f"'password' => '{PLANTED} and more'",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PLANTED}\n-----END OPENSSH PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}\n",
        f"nvapi-{PLANTED}",
        f"ada:$6$salt${PLANTED}:19000",
        f"eyJhbGciOiJI.{PLANTED}.{PLANTED}",
    ],
)
def test_text_that_looks_like_a_secret_is_removed(redaction: ModuleType, line: str) -> None:
    reported = redaction.redact(f"before {line} after")
    assert PLANTED not in reported
    assert "[removed]" in reported and reported.startswith("before")


@pytest.mark.parametrize(
    "line",
    [
        "NodeName=dgx01 CPUs=224 Gres=gpu:h100:8",
        "http://mirror.example.com:8080/debian",
        "http://mirror.example.com:8080/scope/@name/package",
        "https://hooks.example.com",
        "mkdir -p /var/lib/gpufleet && ssh -p 2222 rack@ctl01 uptime",
        "docker run -u 1000:1000 -p 8080:80 --rm nccl-tests",
        "nvidia-smi -pm 1; srun -p batch -N 2 hostname; journalctl -u slurmd --since 10:00",
        "the machine dgx001 asks for the default route: password authentication is off",
        "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
        "AuthType=auth/munge",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB public keys are public",
    ],
)
def test_ordinary_text_is_kept(redaction: ModuleType, line: str) -> None:
    assert redaction.redact(line) == line


def test_known_secret_is_found_in_every_encoding(redaction: ModuleType) -> None:
    known = redaction.forms([PLANTED, "short"])
    for text in (
        PLANTED,
        PLANTED.encode().hex(),
        *(base64.b64encode(b"x" * n + PLANTED.encode()).decode() for n in range(3)),
    ):
        reported = redaction.redact(f"key {text} end", known)
        assert "[removed]" in reported, text
    assert redaction.redact("short", known) == "short"


def test_host_packs_existing_files_and_names_missing_ones(
    bundle: ModuleType, programs: Programs, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "etc" / "a.conf").write_text(f"one\npassword={PLANTED}\n")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("never")
    (tmp_path / "etc" / "b.conf").symlink_to(tmp_path / "private" / "key")
    programs.add("systemctl", "echo 'slurmctld.service loaded active running'")
    programs.add("journalctl", 'case "$*" in *slurmctld*) echo "the unit wrote";; esac')
    target = tmp_path / "out.tar.gz"
    result = run(bundle, path=str(target))
    found = texts(target)
    index = json.loads(found.pop("index.json"))
    assert found["system/release"] == "all is well\n"
    # Kernel files report a size of 0.
    assert found["files/proc/version"].startswith("Linux version")
    assert found["journal/slurmctld.service"] == "the unit wrote\n"
    assert found[f"files{tmp_path}/etc/a.conf"] == "one\npassword=[removed]\n"
    assert not any(name.endswith("b.conf") for name in found)
    assert index["left_out"] == result["left_out"] == {"system/none": "the host has no such program"}
    assert set(index["files"]) == set(found)
    assert target.stat().st_mode & 0o077 == 0 and list(tmp_path.glob("*.new")) == []


def test_long_texts_keep_their_end_and_omitted_ones_are_named(
    bundle: ModuleType, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "LONGEST", 700_000)
    for name in ("a", "b"):
        (tmp_path / "etc" / f"{name}.conf").write_text(
            "".join(f"line {number}\n" for number in range(80_000))
        )
    target = tmp_path / "out.tar.gz"
    left_out = run(bundle, path=str(target), limit_mib=1)["left_out"]
    found = texts(target)
    kept = found[f"files{tmp_path}/etc/a.conf"]
    assert kept.startswith("[the beginning was left out]\nline ") and kept.endswith("line 79999\n")
    assert len(kept) <= 700_000 + 40
    assert "no room" in left_out[f"files{tmp_path}/etc/b.conf"]
    assert json.loads(found["index.json"])["files"][f"files{tmp_path}/etc/a.conf"]["cut"] is True


def test_hanging_command_times_out_and_a_failed_one_is_shown_with_its_code(
    bundle: ModuleType, programs: Programs, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add("hangs", "echo before; exec sleep 60")
    programs.add("fails", "echo no device; exit 9")
    monkeypatch.setattr(bundle, "COMMANDS", {"hangs": ["hangs"], "fails": ["fails"]})
    started = time.monotonic()
    run(bundle, path=str(tmp_path / "out.tar.gz"), timeout_s=1)
    assert time.monotonic() - started < 30
    found = texts(tmp_path / "out.tar.gz")
    assert "took longer than 1 s" in found["hangs"]
    assert found["fails"] == "no device\n\n[exit code 9]\n"


def test_check_mode_writes_nothing_and_a_full_disk_leaves_nothing(
    bundle: ModuleType, run: Run, tmp_path: Path
) -> None:
    run(bundle, path=str(tmp_path / "out.tar.gz"), check=True)
    assert not (tmp_path / "out.tar.gz").exists()
    assert "cannot be written" in run(bundle, path="/nonexistent/out.tar.gz")["msg"]


def part(folder: Path, host: str, files: dict[str, str], *, index: bool = True) -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"{host}.tar.gz", "w:gz") as archive:
        for name, text in (files | ({"index.json": '{"files": {}}'} if index else {})).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def test_bundle_has_all_hosts_no_secrets_and_names_missing_hosts(
    join: ModuleType, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "GPUFLEET_SECRET_MUNGE_KEY_LAB", PLANTED)
    parts = tmp_path / "parts"
    part(parts, "ctl01", {"journal/a": f"it said {PLANTED} twice", "../../evil": "out"})
    part(parts, "dgx02", {"x": "y"}, index=False)
    (parts / "dgx03.tar.gz").write_bytes(b"half")
    output = tmp_path / "made" / "bundle.tar.gz"
    asked = ["ctl01", "dgx01", "dgx02", "dgx03"]
    result = run(join, parts=str(parts), output=str(output), hosts=asked, about={"environment": "prod"})
    assert result["missing"] == ["dgx01", "dgx02", "dgx03"]
    found = texts(output)
    index = json.loads(found.pop("index.json"))
    assert found == {"ctl01/journal/a": "it said [removed] twice"}
    assert index["environment"] == "prod" and list(index["hosts"]) == ["ctl01"]
    assert "not reached" in index["missing"]["dgx01"] and "cannot be read" in index["missing"]["dgx03"]
    assert output.stat().st_mode & 0o077 == 0
    assert not parts.exists() and [path.name for path in output.parent.iterdir()] == ["bundle.tar.gz"]


def test_resumed_run_adds_only_to_its_own_bundle(join: ModuleType, run: Run, tmp_path: Path) -> None:
    parts, output = tmp_path / "parts", tmp_path / "bundle.tar.gz"

    def joined(operation: str, *hosts: str) -> dict[str, str]:
        run(join, parts=str(parts), output=str(output), hosts=list(hosts), operation=operation)
        return texts(output)

    # The killed run had finished ctl01, which the resumed one skips.
    part(parts, "ctl01", {"a": "first"})
    part(parts, "dgx01", {"a": "first"})
    assert set(joined("one", "dgx01", "dgx02")) == {"ctl01/a", "dgx01/a", "index.json"}
    part(parts, "dgx02", {"a": "second"})
    part(parts, "dgx01", {"a": "second"})
    found = joined("one", "dgx02")
    assert {name: found[name] for name in found if name != "index.json"} == {
        "ctl01/a": "first",
        "dgx01/a": "second",
        "dgx02/a": "second",
    }
    index = json.loads(found["index.json"])
    assert sorted(index["hosts"]) == ["ctl01", "dgx01", "dgx02"] and index["missing"] == {}
    part(parts, "dgx02", {"a": "third"})
    assert set(joined("other", "ctl01", "dgx02")) == {"dgx02/a", "index.json"}


def test_earlier_bundle_stays_when_the_new_one_cannot_be_written(
    join: ModuleType, run: Run, tmp_path: Path
) -> None:
    output = tmp_path / "bundle.tar.gz"
    output.write_text("earlier")
    reported = run(join, parts=str(tmp_path / "parts"), output=str(output), hosts=["no/host"])
    assert "is no name of a host" in reported["msg"]
    assert output.read_text() == "earlier"
