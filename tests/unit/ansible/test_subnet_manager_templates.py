"""Files of the role subnet_manager, read by the real opensm on fabrics simulated by ibsim."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.rack.ib_networks import PORTS, UMAD2SIM, cut, network, port_guid, switch_guid
from tests.rack.lab import fleet_text
from tests.unit.ansible.rendering import Site

pytestmark = pytest.mark.daemon

RAILS = network(nodes=4, rails=8, leaves=8, spines=4, managers=2, by_rail=True)
FAT_TREE = network(nodes=8, rails=4, leaves=4, spines=4, managers=2, by_rail=False)
SPINES = [switch_guid(index) for index in range(4)]
QUICK = {"subnet_manager_poll_interval_ms": 500, "subnet_manager_poll_retries": 2}


class Fabric:
    """A simulated fabric, and programs on it."""

    def __init__(self, folder: Path, simulator: subprocess.Popen[str], port: int) -> None:
        self.folder, self.simulator, self.port = folder, simulator, port

    def environment(self, adapter: str) -> dict[str, str]:
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LD_PRELOAD": UMAD2SIM,
            "SIM_HOST": adapter,
            "IBSIM_SERVER_NAME": "127.0.0.1",
            "IBSIM_SERVER_PORT": str(self.port),
        }

    def ask(self, adapter: str, *command: str) -> str:
        """Output of a program at an adapter."""
        done = subprocess.run(
            command,
            env=self.environment(adapter),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.stdout + done.stderr

    def tell(self, command: str) -> None:
        """A command for the simulator, as `Unlink "SM0"[1]`."""
        commands: IO[str] | None = self.simulator.stdin
        assert commands is not None
        commands.write(command + "\n")
        commands.flush()


@contextmanager
def simulated(text: str, folder: Path) -> Iterator[Fabric]:
    """The fabric of a network file, until the end."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "network").write_text(text)
    with (folder / "ibsim.log").open("w") as log:
        simulator = subprocess.Popen(
            ["ibsim", "-s", "-r", "-l", str(port), "network"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
        )
    try:
        wait_for(lambda: "MaxMcastCap" in (folder / "ibsim.log").read_text())
        time.sleep(0.2)
        yield Fabric(folder, simulator, port)
    finally:
        simulator.kill()
        simulator.wait()
        assert simulator.stdin is not None
        simulator.stdin.close()


class Manager:
    """An opensm with the files of the role, moved below a folder."""

    def __init__(self, fabric: Fabric, adapter: str, files: Mapping[str, str]) -> None:
        self.folder = fabric.folder / adapter
        self.folder.mkdir()
        for path, text in files.items():
            moved = text.replace("/etc/opensm/", f"{self.folder}/").replace("/var/log/", f"{self.folder}/")
            (self.folder / Path(path).name).write_text(moved)
        dumps = f"dump_files_dir {self.folder}\nlog_flags 0x43\nforce_log_flush TRUE\n"
        configuration = self.folder / "opensm.conf"
        configuration.write_text(configuration.read_text() + dumps)
        environment = fabric.environment(adapter) | {
            "OSM_TMP_DIR": str(self.folder),
            "OSM_CACHE_DIR": str(self.folder),
        }
        with (self.folder / "reported").open("w") as reported:
            self.process = subprocess.Popen(
                ["opensm", "--config", str(configuration)],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=reported,
                stderr=reported,
            )

    @property
    def log(self) -> str:
        path = self.folder / "opensm.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def reported(self) -> str:
        return (self.folder / "reported").read_text()

    def up(self) -> str:
        """The log once the subnet is up."""
        wait_for(lambda: "SUBNET UP" in self.log)
        return self.log

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def uplinks(self) -> Counter[tuple[str, int]]:
        """Number of adapters reached through each port from a leaf to a spine."""
        counts: Counter[tuple[str, int]] = Counter()
        leaf = ""
        for line in (self.folder / "opensm-lfts.dump").read_text().splitlines():
            if found := re.match(r"Unicast lids .* \('(\w+)'\)", line):
                leaf = found[1]
            elif found := re.match(r"0x\w+ (\d+) # Channel", line):
                port = int(found[1])
                counts[leaf, port] += leaf.startswith("L") and port > PORTS - 4
        return +counts


def wait_for(done: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    text = fleet_text(controllers=2)
    managers = "subnet_managers: [{host: ctl01, priority: 15}, {host: ctl02, priority: 14}] }"
    return Site(
        text.replace("topology: rail-optimized }", f"topology: rail-optimized, {managers}"),
        tmp_path_factory.mktemp("site"),
    )


def files(site: Site, host: str = "ctl01", **variables: Any) -> dict[str, str]:
    found = site.rendered(
        host, "subnet_manager", "debian_12", {f"subnet_manager_{k}": v for k, v in variables.items()}
    )
    return {path: item.text for path, item in found.items() if path.startswith("/etc/opensm/")}


@contextmanager
def running(fabric: Fabric, adapter: str, texts: Mapping[str, str]) -> Iterator[Manager]:
    manager = Manager(fabric, adapter, texts)
    try:
        yield manager
    finally:
        manager.end()


def test_opensm_accepts_every_option_and_each_appears_once(site: Site, tmp_path: Path) -> None:
    texts = files(site, root_guids=SPINES, options={"qos": True, "max_wire_smps": 16, "sweep_interval": 30})
    names = [line.split()[0] for line in texts["/etc/opensm/opensm.conf"].splitlines() if line[:1].islower()]
    assert len(names) == len(set(names))
    assert "sweep_interval 30" in texts["/etc/opensm/opensm.conf"]
    with simulated(RAILS, tmp_path) as fabric, running(fabric, "SM0", texts) as manager:
        manager.up()
        assert "Unrecognized" not in manager.reported + manager.log
        assert "max_wire_smps = 16" in manager.log.replace("\t", " ") or "max_wire_smps" in manager.reported
        assert "ERR" not in manager.log


def test_opensm_reports_an_unknown_option(site: Site, tmp_path: Path) -> None:
    texts = files(site, options={"no_such_option": 1})
    with simulated(RAILS, tmp_path) as fabric, running(fabric, "SM0", texts) as manager:
        manager.up()
        assert 'Unrecognized token: "no_such_option"' in manager.reported


@pytest.mark.parametrize(
    ("topology", "text", "roots", "engine"),
    [
        pytest.param("rail-optimized", RAILS, True, "updn", id="rails with roots"),
        pytest.param("rail-optimized", RAILS, False, "ftree", id="rails without roots"),
        pytest.param("fat-tree", FAT_TREE, True, "ftree", id="fat tree with roots"),
        pytest.param("fat-tree", FAT_TREE, False, "ftree", id="fat tree without roots"),
    ],
)
def test_routes_are_spread_evenly_over_all_uplinks(
    site: Site, tmp_path: Path, topology: str, text: str, roots: bool, engine: str
) -> None:
    texts = files(site, topology=topology, root_guids=SPINES if roots else [])
    assert ("/etc/opensm/gpufleet-root-guids.conf" in texts) is roots
    with simulated(text, tmp_path) as fabric, running(fabric, "SM0", texts) as manager:
        assert f"{engine} tables configured on all switches" in manager.up()
        wait_for(lambda: (manager.folder / "opensm-lfts.dump").exists())
        counts = manager.uplinks()
    assert len(counts) == (8 if text is RAILS else 4) * 4
    assert max(counts.values()) - min(counts.values()) <= 2


@pytest.mark.parametrize(("roots", "idle"), [(True, 0), (False, 7)])
def test_lost_cable_idles_a_whole_spine_unless_roots_are_named(
    site: Site, tmp_path: Path, roots: bool, idle: int
) -> None:
    texts = files(site, root_guids=SPINES if roots else [])
    with simulated(cut(RAILS, "S0", "L0"), tmp_path) as fabric, running(fabric, "SM0", texts) as manager:
        assert "updn tables configured on all switches" in manager.up()
        wait_for(lambda: (manager.folder / "opensm-lfts.dump").exists())
        counts = manager.uplinks()
    assert len(counts) == 31 - idle


def test_only_members_of_a_partition_have_its_key(site: Site, tmp_path: Path) -> None:
    members = [port_guid(1), port_guid(9)]
    partitions = [
        {"name": "tenant", "pkey": "0x0012", "ipoib": True, "port_guids": members},
        {"name": "all", "pkey": "0x0013", "ipoib": False, "port_guids": []},
    ]
    texts = files(site, partitions=partitions)
    with simulated(RAILS, tmp_path) as fabric, running(fabric, "SM0", texts) as manager:
        manager.up()
        for index in (0, 1, 9, 10):
            keys = fabric.ask("N0_0", "smpquery", "-G", "pkeys", port_guid(index))
            assert "0xffff" in keys and "0x8013" in keys
            assert ("0x8012" in keys) is (port_guid(index) in members)
        groups = fabric.ask("N0_1", "saquery", "MCMR")
    assert "ff12:401b:ffff::ffff:ffff" in groups and "ff12:401b:8012::ffff:ffff" in groups
    assert "ff12:401b:8013" not in groups


def test_standby_takes_over_only_when_the_host_of_the_master_dies(site: Site, tmp_path: Path) -> None:
    with simulated(RAILS, tmp_path) as fabric:
        master = files(site, "ctl01", **_named(QUICK))
        standby = files(site, "ctl02", **_named(QUICK))
        with running(fabric, "SM0", master) as first:
            first.up()
            with running(fabric, "SM1", standby) as second:
                wait_for(lambda: "Entering STANDBY state" in second.log)
                time.sleep(3)
                assert "Entering MASTER state" not in second.log
                assert "priority 15 state 3 SMINFO_MASTER" in fabric.ask("N0_0", "sminfo")
                fabric.tell('Unlink "SM0"[1]')
                first.end()
                wait_for(lambda: "Entering MASTER state" in second.log)
                second.up()
                assert "priority 14 state 3 SMINFO_MASTER" in fabric.ask("N0_0", "sminfo")


def _named(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("subnet_manager_"): value for name, value in variables.items()}


def test_opensm_exits_cleanly_without_a_port(tmp_path: Path) -> None:
    done = subprocess.run(
        ["opensm", "--log_file", str(tmp_path / "log")],
        cwd=tmp_path,
        env=os.environ | {"OSM_TMP_DIR": str(tmp_path), "PATH": "/usr/sbin:/usr/bin"},
        capture_output=True,
        text=True,
        timeout=20,
    )
    # Therefore the unit restarts `always`, and not `on-failure`.
    assert "No local ports detected" in done.stdout + done.stderr
    assert done.returncode == 0


def test_unit_restarts_after_any_exit(site: Site) -> None:
    unit = site.rendered("ctl01", "subnet_manager", "debian_12")[
        "/etc/systemd/system/gpufleet-opensm.service"
    ].text
    assert "Restart=always" in unit and "StartLimitIntervalSec=0" in unit
    assert "ExecStart=/usr/sbin/opensm --config /etc/opensm/opensm.conf\n" in unit
