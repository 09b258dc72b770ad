"""Known hosts, judged by ssh-keygen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.racks.configure.known_hosts import fingerprint, is_known, known_name, read_known_hosts
from gpufleet.racks.configure.targets import known_hosts_files, refuse_unknown, ssh_arguments


@pytest.fixture
def key(tmp_path: Path) -> str:
    """The public key of a host, type and base64."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True, timeout=60
    )
    return " ".join((tmp_path / "key.pub").read_text().split()[:2])


CASES = [
    ("ctl01", 22, "ctl01", True),
    ("ctl01", 22, "ctl02", False),
    ("ctl01", 2222, "ctl01", False),
    ("ctl01", 2222, "[ctl01]:2222", True),
    ("CTL01", 22, "ctl01", True),
    ("dgx001", 22, "dgx*", True),
    ("dgx001", 22, "dgx*,!dgx001", False),
    ("dgx001", 22, "a,dgx00?", True),
    ("dgx001", 2222, "[dgx*]:2222", True),
]


@pytest.mark.parametrize(("address", "port", "names", "known"), CASES)
def test_host_is_known_if_ssh_keygen_finds_it(address, port, names, known, key, tmp_path):
    path = tmp_path / "known_hosts"
    path.write_text(f"# comment\n\n{names} {key}\n")
    assert is_known(address, port, read_known_hosts([path])) is known
    found = subprocess.run(
        ["ssh-keygen", "-F", known_name(address, port), "-f", path], capture_output=True, check=False
    )
    assert (found.returncode == 0) is known


def test_hashed_names_are_found(key, tmp_path):
    path = tmp_path / "known_hosts"
    path.write_text(f"ctl01 {key}\n[ctl02]:2222 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
    assert "ctl01" not in path.read_text()
    keys = read_known_hosts([path])
    assert is_known("ctl01", 22, keys)
    assert is_known("ctl02", 2222, keys)
    assert not is_known("ctl02", 22, keys)


def test_certificate_authority_makes_hosts_known_and_a_revoked_key_does_not(key, tmp_path):
    path = tmp_path / "known_hosts"
    path.write_text(f"@cert-authority *.dc1.example.com {key}\n@revoked ctl09 {key}\n")
    keys = read_known_hosts([path])
    assert is_known("dgx001.dc1.example.com", 22, keys)
    assert not is_known("ctl09", 22, keys)


def test_fingerprint_equals_that_of_ssh_keygen(key, tmp_path):
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, text=True, check=True
    ).stdout
    assert fingerprint(key.split()[1]) == shown.split()[1]
    assert fingerprint("no base64!") == ""


def test_invalid_lines_and_missing_files_are_skipped(tmp_path):
    (tmp_path / "known_hosts").write_text("nonsense\n|1|broken ssh-ed25519 AAAA\n")
    assert not is_known("ctl01", 22, read_known_hosts([tmp_path / "known_hosts", tmp_path / "none"]))


def test_unknown_hosts_are_one_finding_with_its_remedy(tmp_path, key):
    files = (tmp_path / "known_hosts", tmp_path / "other")
    connections = {f"dgx00{n}": (f"dgx00{n}.dc1", 22) for n in (1, 2, 3)}
    files[0].write_text(f"dgx002.dc1 {key}\n")
    with pytest.raises(
        InputError, match=r"2 hosts are not known: dgx\[001,003\]\. dgx001 is reached as dgx001\.dc1"
    ) as refused:
        refuse_unknown(["dgx001", "dgx002", "dgx003", "local"], connections, files, "prod")
    assert "gpufleet hostkeys prod" in refused.value.remedy
    refuse_unknown(["dgx002", "local"], connections, files, "prod")


def test_ssh_configuration_can_name_other_known_hosts_files(tmp_path):
    config = tmp_path / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {tmp_path}/mine\n")
    files = known_hosts_files(tmp_path / "stack", config)
    assert files[:2] == (tmp_path / "stack" / "known_hosts", tmp_path / "mine")
    config.write_text("NoSuchOption yes\n")
    with pytest.raises(InputError, match="ssh cannot use its configuration"):
        known_hosts_files(tmp_path, config)


def test_ssh_accepts_the_arguments(tmp_path):
    import shlex

    files = (tmp_path / "with blank" / "known_hosts", tmp_path / "other")
    done = subprocess.run(
        ["ssh", "-G", *shlex.split(ssh_arguments(files)), "ctl01"],
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("userknownhostsfile"))
    assert str(files[0]) in line and str(files[1]) in line
