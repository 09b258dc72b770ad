"""Lifecycle of a rack: start, use, kill, two at once, and removal without leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from gpufleet.errors import CloudError, GpufleetError, InputError
from gpufleet.lab.rack import Rack, start_rack, take_down
from gpufleet.lab.rack.limits import KEPT
from tests.rack.lab import CACHE, ROOT, Lab, fleet_text, plan_fleet, share_cache

SMALL = fleet_text(gpu_nodes=1, controllers=1, login=False)


class Traces:
    """Leftovers of racks on this machine. Other racks may start and stop meanwhile: theirs do not count."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._before = self._of_racks()

    def left(self) -> dict[str, list[str]]:
        """Leftovers of the racks in the folder; others that come or go are waited for."""
        deadline = time.monotonic() + 20
        while (found := self._left()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return found

    def _left(self) -> dict[str, list[str]]:
        commands = command_lines()
        alive = [line for line in commands if "lab.rack.supervisor" in line]
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        backing = read_all("/sys/block/loop*/loop/backing_file")
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found = {
            "processes": [line for line in commands if self._folder in line],
            "mounts": [line for line in mounts if self._folder in line or str(CACHE) in line],
            "links": re.findall(r"^\d+: ((?:rack|vb-)\S*?)[@:]", links, re.M),
            "loops": [line for line in backing if self._folder in line],
            "of racks": sorted(
                name
                for name in self._of_racks() - self._before
                if not any(name.rpartition("-")[2] in line for line in alive)
            ),
        }
        return {kind: names for kind, names in found.items() if names}

    @staticmethod
    def _of_racks() -> set[str]:
        """Control groups, folders with sockets, and claims on the machine's limits: each ends with an id."""
        claims = KEPT.read_text().split()[1:] if KEPT.exists() else []
        return {
            *there("/sys/fs/cgroup/**/gpufleet-rack-*"),
            *there("/var/tmp/gpufleet-rack-*"),
            *(f"limits-{claim.partition('=')[0]}" for claim in claims),
        }


def command_lines() -> list[str]:
    """Those of all other processes of this machine."""
    own = f"/proc/{os.getpid()}/cmdline"
    return [line.replace("\0", " ") for line in read_all("/proc/[0-9]*/cmdline", but=own)]


def there(pattern: str) -> list[str]:
    """Paths of a pattern. Unlike Path.glob it passes over what goes meanwhile: other processes' racks do."""
    return glob(pattern, recursive=True)  # noqa: PTH207


def read_all(pattern: str, but: str = "") -> list[str]:
    """What is in files that may go while they are looked for and read."""
    found = []
    for path in there(pattern):
        with contextlib.suppress(OSError):
            if path != but:
                found.append(Path(path).read_text(errors="replace"))
    return found


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    """The machine's state before the test."""
    return Traces(tmp_path)


@pytest.fixture
def folder(can_hold_racks: None, tmp_path: Path) -> Iterator[Path]:
    """A folder for a rack, which is stopped after the test."""
    yield tmp_path / "rack"
    take_down(tmp_path / "rack")


def small_site(tmp_path: Path):
    file = tmp_path / "fleet.yaml"
    file.write_text(SMALL)
    return plan_fleet(file)[0]


def test_every_host_runs_and_answers_to_its_name(rack: Lab) -> None:
    hosts = rack.rack.status()

    assert [(host.name, host.address, host.role) for host in hosts] == [
        ("ctl01", "10.90.0.11", "controller"),
        ("ctl02", "10.90.0.12", "controller"),
        ("login01", "10.90.0.13", "login"),
        *((f"dgx0{number}", f"10.90.0.{13 + number}", "gpu") for number in range(1, 5)),
    ]
    machine_ids, boot_ids = set(), set()
    for host in hosts:
        reported = rack.sh(host.name, "hostname; systemctl is-system-running; cat /etc/machine-id; "
                       "cat /proc/sys/kernel/random/boot_id").split()  # fmt: skip
        assert reported[:2] == [host.name, "running"]
        machine_ids.add(reported[2])
        boot_ids.add(reported[3])
    assert len(machine_ids) == len(boot_ids) == len(hosts)


def test_hosts_have_only_the_network_of_the_rack(rack: Lab) -> None:
    assert "1 received" in rack.sh("dgx01", "ping -c1 -W2 ctl01.lab.example.com")
    reported = rack.sh("dgx01", "ping -c1 -W1 9.9.9.9; echo $?", code=None)
    assert reported.split()[-1] != "0"


def test_foreign_host_key_is_refused(rack: Lab) -> None:
    config = rack.rack.record.ssh_config
    known = config.with_name("known_hosts")
    before = known.read_text()
    keys = [line.split() for line in before.splitlines()]
    known.write_text(
        "".join(f"{line[0]} {line[1]} {keys[index - 1][2]}\n" for index, line in enumerate(keys))
    )
    try:
        done = rack.rack.ssh("dgx01", "true")
    finally:
        known.write_text(before)

    assert done.returncode == 255
    assert "host key" in done.stderr.lower()
    assert rack.rack.ssh("dgx01", "true").returncode == 0


def test_rebooted_host_keeps_its_files(clean_rack: Lab) -> None:
    boots = {host.name: host.boots for host in clean_rack.rack.status()}
    before = clean_rack.sh("dgx01", "echo kept >/etc/kept; cat /proc/sys/kernel/random/boot_id")
    clean_rack.sh("dgx01", "systemctl reboot", code=None)
    deadline = time.monotonic() + 60
    while {host.name: host.boots for host in clean_rack.rack.status()}["dgx01"] == boots["dgx01"]:
        assert time.monotonic() < deadline, "dgx01 did not reboot"
        time.sleep(0.1)

    clean_rack.rack.start("dgx01")
    assert clean_rack.sh("dgx01", "cat /etc/kept") == "kept\n"
    assert clean_rack.sh("dgx01", "cat /proc/sys/kernel/random/boot_id") != before


def test_hosts_are_reset_to_the_snapshot_and_their_first_boot(folder: Path, tmp_path: Path) -> None:
    lab = Lab.up(tmp_path, SMALL)
    lab.sh("ctl01", "echo one >/etc/mark; install -D -o daemon /etc/mark /srv/shared/filer/mark")
    lab.seal("configured")
    lab.sh("ctl01", "echo two | tee /etc/mark /srv/shared/filer/mark; echo new >/etc/other; rm /etc/hosts")

    lab.reset(name="configured")
    assert lab.sh("ctl01", "cat /etc/mark; ls /etc/hosts; test ! -e /etc/other") == "one\n/etc/hosts\n"
    assert lab.sh("ctl01", "cd /srv/shared/filer; cat mark; stat -c %U mark") == "one\ndaemon\n"

    lab.reset()
    assert lab.sh("ctl01", "ls /srv/shared") == ""
    lab.reset(name="configured")
    assert lab.sh("ctl01", "cat /etc/mark /srv/shared/filer/mark") == "one\none\n"

    lab.reset()
    assert lab.sh("ctl01", "test ! -e /etc/mark && systemctl is-system-running") == "running\n"
    lab.seal("other")
    with pytest.raises(InputError, match="no state 'configured'"):
        lab.rack.restore(name="configured")


def test_unplugged_host_is_unreachable_until_it_is_plugged_in(rack: Lab) -> None:
    rack.rack.cable("login01", plugged=False)
    try:
        done = subprocess.run(
            ["ssh", "-o", "ConnectTimeout=2", *rack.rack.ssh_command("login01", "true")[1:]],
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        rack.rack.cable("login01", plugged=True)
    assert done.returncode == 255
    assert rack.rack.ssh("login01", "true").returncode == 0


def cables(rack: Lab) -> set[str]:
    listed = subprocess.run(
        ["nsenter", f"--net=/proc/{rack.rack.pid}/ns/net", "ip", "-o", "link"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"vb-\w+", listed.stdout))


def test_cable_left_by_a_killed_host_does_not_stop_a_new_start(clean_rack: Lab) -> None:
    """The kernel removes it some time after the host's last process has ended."""
    before = cables(clean_rack)
    clean_rack.touched.add("login01")
    clean_rack.rack.stop("login01", force=True)
    deadline = time.monotonic() + 60
    while not (gone := before - cables(clean_rack)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (name,) = gone
    nsenter = ["nsenter", f"--net=/proc/{clean_rack.rack.pid}/ns/net"]
    subprocess.run([*nsenter, "ip", "link", "add", name, "type", "veth", "peer", "name", "old"], check=True)

    clean_rack.rack.start("login01")
    assert clean_rack.sh("login01", "hostname") == "login01\n"
    assert cables(clean_rack) == before


def test_host_that_dies_during_boot_is_reported_with_its_output(clean_rack: Lab) -> None:
    clean_rack.touched.add("login01")
    clean_rack.rack.stop("login01", force=True)
    init = clean_rack.rack.layout.host("login01") / "upper" / "usr/lib/systemd/systemd"
    init.parent.mkdir(parents=True, exist_ok=True)
    init.unlink(missing_ok=True)
    init.write_text("#!/bin/sh\necho no such day >/dev/console\nexit 3\n")
    init.chmod(0o755)

    with pytest.raises(
        GpufleetError, match=r"login01 ended while booting; the last output of login01: .*no such day"
    ):
        clean_rack.rack.start("login01")
    assert {host.name: host.state for host in clean_rack.rack.status()}["login01"] == "stopped"


def test_packages_are_signed_and_a_missing_repository_stops_an_installation(clean_rack: Lab) -> None:
    install = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq install -y jq"
    clean_rack.sh("dgx01", "apt-get -qq update")
    clean_rack.rack.repository(on=False)
    reported = clean_rack.sh("dgx01", f"{install} 2>&1 || echo code $?")
    assert "Unable to fetch" in reported or "Could not connect" in reported
    assert reported.split()[-1] == "100"

    clean_rack.rack.repository(on=True)
    clean_rack.sh("dgx01", f"{install} >/dev/null && jq --version")
    clean_rack.sh("dgx01", "rm /usr/share/keyrings/rack.gpg")
    assert "NO_PUBKEY" in clean_rack.sh("dgx01", "apt-get update 2>&1", code=None)


def test_down_leaves_nothing_and_does_not_affect_a_second_rack(
    folder: Path, tmp_path: Path, traces: Traces
) -> None:
    other = tmp_path / "other"
    site = small_site(tmp_path)
    first = start_rack(folder, site, CACHE)
    second = start_rack(other, site, CACHE)
    try:
        assert first.ssh("ctl01", "echo first | sudo tee /etc/mark").returncode == 0
        assert second.ssh("ctl01", "test ! -e /etc/mark").returncode == 0

        assert take_down(folder)
        assert not folder.exists()
        assert Rack.find(folder) is None
        assert second.ssh("dgx01", "ping -c1 -W2 ctl01").returncode == 0
    finally:
        take_down(other)
    assert traces.left() == {}
    assert not other.exists()
    assert not take_down(other)


@pytest.mark.fresh
def test_up_accepts_a_running_rack_and_refuses_other_hosts(folder: Path, tmp_path: Path) -> None:
    site = small_site(tmp_path)
    first = start_rack(folder, site, CACHE)
    first.stop("dgx01")
    assert {host.name: host.state for host in first.status()} == {"ctl01": "running", "dgx01": "stopped"}

    again = start_rack(folder, site, CACHE)

    assert again.pid == first.pid
    assert {host.state for host in again.status()} == {"running"}
    with pytest.raises(InputError, match="a rack of other hosts: ctl01, dgx01"):
        start_rack(folder, plan_fleet(ROOT / "gpufleet/lab/rack/fleet.yaml")[0], CACHE)


@pytest.mark.parametrize("after_s", [0.3, 0.8, 1.5, 3.0])
def test_up_after_a_killed_up_gives_a_complete_rack(
    folder: Path, tmp_path: Path, traces: Traces, after_s: float
) -> None:
    (tmp_path / "fleet.yaml").write_text(SMALL)
    program = (
        "from pathlib import Path; from tests.rack.lab import *; "
        f"start_rack(Path({str(folder)!r}), plan_fleet(Path({str(tmp_path / 'fleet.yaml')!r}))[0], CACHE)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()

    rack = start_rack(folder, small_site(tmp_path), CACHE)

    assert {host.name: host.state for host in rack.status()} == {"ctl01": "running", "dgx01": "running"}
    assert rack.ssh("dgx01", "systemctl is-system-running").stdout == "running\n"
    take_down(folder)
    assert traces.left() == {}


def test_killed_supervisor_stops_the_rack_and_down_cleans_up(
    folder: Path, tmp_path: Path, traces: Traces
) -> None:
    rack = start_rack(folder, small_site(tmp_path), CACHE)
    os.kill(rack.pid, signal.SIGKILL)
    os.waitpid(rack.pid, 0)

    assert Rack.find(folder) is None
    with pytest.raises(CloudError, match="does not answer"):
        rack.status()
    assert take_down(folder)
    assert traces.left() == {}


def test_down_in_a_copied_folder_keeps_the_rack_and_in_a_moved_one_stops_it(
    folder: Path, tmp_path: Path, traces: Traces
) -> None:
    rack = start_rack(folder, small_site(tmp_path), CACHE)
    copy, moved = tmp_path / "copy", folder.with_name("moved")
    copy.mkdir()
    for path in (rack.layout.record, rack.layout.pid):
        (copy / path.name).write_bytes(path.read_bytes())
    assert Rack.find(copy) is None
    assert take_down(copy) and not copy.exists()
    assert rack.ssh("dgx01", "ping -c1 -W2 ctl01").returncode == 0

    folder.rename(moved)
    assert Rack.find(moved) is None
    assert take_down(moved)
    with pytest.raises(CloudError, match="does not answer"):
        rack.status()
    assert traces.left() == {}


def test_command_lists_hosts_and_reports_missing_tools(folder: Path, checkout, tmp_path: Path) -> None:
    assert checkout.json("rack", "status") == {"up": False, "hosts": []}
    file = checkout.root / "small.yaml"
    file.write_text(SMALL)
    share_cache(checkout)

    up = checkout.json("rack", "up", str(file))
    try:
        assert up["hosts"] == [
            {"name": "ctl01", "address": "10.90.0.11", "state": "running", "role": "controller"},
            {"name": "dgx01", "address": "10.90.0.12", "state": "running", "role": "gpu"},
        ]
        assert checkout.json("rack", "status")["hosts"] == up["hosts"]
        done = checkout.run("rack", "ssh", "dgx01", "hostname", "-f")
        assert (done.returncode, done.stdout) == (0, "dgx01.lab.example.com\n")
        assert checkout.run("rack", "ssh", "dgx09", "true").returncode == 2
    finally:
        assert checkout.json("rack", "down") == {"removed": True, "hosts": []}
    assert checkout.json("rack", "down") == {"removed": False, "hosts": []}

    # Without rights, and with root's files: a checkout below /root can be read.
    unprivileged = ("unshare", "--user")
    refused = checkout.run("rack", "up", "--json", prefix=unprivileged, env={"HOME": "/nonexistent"})
    assert refused.returncode == 2, refused.stderr
    assert "needs root" in json.loads(refused.stdout)["error"]
