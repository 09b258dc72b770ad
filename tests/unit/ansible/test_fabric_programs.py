"""Host programs of the fabric roles: device names, and settings of lossless Ethernet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loading import load_source
from tests.unit.ansible.collection import conftest as collection

ROLES = Path(__file__).resolve().parents[3] / "ansible" / "roles"
ROCE = ROLES / "roce" / "files" / "roce"
NAMER = ROLES / "rdma" / "files" / "rdma-name"
WANTED = {"devices": [], "interfaces": [], "priority": 3, "dscp": 26, "mtu": 9000, "ecn": True}


def test_device_with_its_own_name_or_without_one_is_unchanged() -> None:
    renames = load_source(NAMER, "rdma_name").renames
    assert renames("0000:18:00.0", "mlx5_0", {"0000:18:00.0": "mlx5_0"}) == []
    assert renames("0000:18:00.0", "mlx5_0", {}) == []


def test_devices_get_their_names_back_after_a_dead_adapter() -> None:
    """The kernel has shifted the names: each device has that of its neighbor."""
    renames = load_source(NAMER, "rdma_name").renames
    own = {"0000:40:00.0": "mlx5_1", "0000:4f:00.0": "mlx5_2", "0000:5e:00.0": "mlx5_3"}
    for order in (list(own), list(reversed(own)), ["0000:4f:00.0", "0000:5e:00.0", "0000:40:00.0"]):
        there = {"0000:40:00.0": "mlx5_0", "0000:4f:00.0": "mlx5_1", "0000:5e:00.0": "mlx5_2"}
        for bus in order:
            for old, new in renames(bus, own[bus], there):
                assert new not in there.values(), "the kernel refuses a name that is taken"
                at = next(place for place, name in there.items() if name == old)
                there[at] = new
        assert there == own


def udev(rules: Path) -> str:
    """Output of udev for a folder of rules, instead of the machine's."""
    script = (
        'mount -t tmpfs t /etc/udev && mkdir /etc/udev/rules.d && cp "$0"/* /etc/udev/rules.d && udevadm test'
    )
    command = [
        "unshare",
        "-r",
        "-m",
        "sh",
        "-c",
        f"mkdir -p /etc/udev; {script} /sys/class/net/lo",
        str(rules),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    reported = done.stdout + done.stderr
    assert "Reading rules file: /etc/udev/rules.d/" in reported, reported
    return "\n".join(
        line for line in reported.splitlines() if "/etc/udev/rules.d/" in line and "Reading" not in line
    )


def test_udev_accepts_the_rules(tmp_path: Path) -> None:
    adapters = collection.load("rdma_adapters")
    device = adapters.Adapter("0000:18:00.0", "mlx5_0", "InfiniBand")
    (tmp_path / "60-names.rules").write_text(adapters.render_rules([device], ["mlx5_0"]))
    (tmp_path / "91-roce.rules").write_text((ROLES / "roce/files/91-gpufleet-roce.rules").read_text())
    assert udev(tmp_path) == ""
    (tmp_path / "95-bad.rules").write_text('ACTON=="add", KERNELS="x"\n')
    assert "95-bad.rules" in udev(tmp_path)


class Node:
    """A host with Ethernet adapters, and stand-ins for the vendor's programs."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.programs = root, root / "programs"
        self.programs.mkdir(parents=True)
        (root / "etc/gpufleet").mkdir(parents=True)
        self.write(WANTED)
        monkeypatch.setenv("PATH", f"{self.programs}:/usr/bin:/bin")
        monkeypatch.setenv("ROCE_ROOT", str(root))
        state = root / "state"
        state.mkdir()
        self.program(
            "mlnx_qos",
            f"""net=$2; shift 2
            trust=$(cat {state}/$net.trust 2>/dev/null || echo pcp)
            pfc=$(cat {state}/$net.pfc 2>/dev/null || echo 0,0,0,0,0,0,0,0)
            for word in "$@"; do case "$word" in
              --trust=*) echo ${{word#*=}} >{state}/$net.trust;;
              --pfc=*) echo ${{word#*=}} >{state}/$net.pfc;;
              --dscp2prio=*) echo ${{word#*=set,}} >{state}/$net.map;;
            esac; done
            printf 'DCBX mode: OS controlled\\nPriority trust state: %s\\n' $trust
            m=$(cat {state}/$net.map 2>/dev/null)
            [ -z "$m" ] || printf '\\tprio:%s dscp:%s,\\n' ${{m#*,}} ${{m%,*}}
            printf '\\tpriority    0   1   2   3   4   5   6   7\\n'
            printf '\\tenabled     %s\\n' "$(echo $pfc | tr , ' ')" """,
        )
        self.program(
            "cma_roce_tos",
            f'[ "$3" = -t ] && echo $4 >{state}/$2.tos; cat {state}/$2.tos 2>/dev/null || echo 0',
        )
        self.program("ip", f"echo $6 >{root}/sys/class/net/$4/mtu")
        for number, bus in enumerate(("0000:18:00.0", "0000:40:00.0")):
            net = f"ens{number}np0"
            function = root / "sys/bus/pci/devices" / bus
            (function / "net" / net).mkdir(parents=True)
            device = root / "sys/class/infiniband" / f"mlx5_{number}"
            (device / "ports/1").mkdir(parents=True)
            (device / "ports/1/link_layer").write_text("Ethernet\n")
            (device / "device").symlink_to(function)
            for part in ("roce_np", "roce_rp"):
                folder = root / "sys/class/net" / net / "ecn" / part / "enable"
                folder.mkdir(parents=True)
                (folder / "3").write_text("0\n")
            (root / "sys/class/net" / net / "mtu").write_text("1500\n")

    def write(self, wanted: dict[str, Any]) -> None:
        (self.root / "etc/gpufleet/roce.json").write_text(json.dumps(wanted))

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.root}/called\n{script}\n')
        path.chmod(0o755)

    def roce(self, verb: str, code: int = 0) -> list[str]:
        done = subprocess.run([sys.executable, str(ROCE), verb], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.splitlines()

    def differences(self, code: int = 1) -> set[tuple[str, str]]:
        rows = [json.loads(line) for line in self.roce("differences", code)]
        return {(row["device"], row["setting"]) for row in rows}

    def sets(self) -> list[str]:
        """Changing calls."""
        lines = (self.root / "called").read_text().splitlines()
        (self.root / "called").unlink()
        return [line for line in lines if "--" in line or " -t " in line or " set " in line]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_everything_differs_at_first_and_nothing_after_it_was_set(node: Node) -> None:
    settings = {"mtu", "trust", "pfc", "ecn", "traffic_class"}
    both = {(device, setting) for device in ("mlx5_0", "mlx5_1") for setting in settings}
    assert node.differences() == both
    reported = node.roce("apply")
    assert "ens0np0: mtu 1500 -> 9000" in reported and "ens1np0: traffic_class 0 -> 104" in reported
    assert "mlnx_qos -i ens0np0 --trust=dscp --pfc=0,0,0,1,0,0,0,0" in node.sets()
    assert node.differences(0) == set()
    for part in ("roce_np", "roce_rp"):
        assert (node.root / f"sys/class/net/ens1np0/ecn/{part}/enable/3").read_text().strip() == "1"


def test_only_differing_settings_are_set(node: Node) -> None:
    node.roce("apply")
    (node.root / "sys/class/net/ens1np0/mtu").write_text("1500\n")
    node.sets()
    assert node.differences() == {("mlx5_1", "mtu")}
    assert node.roce("apply") == ["ens1np0: mtu 1500 -> 9000"]
    assert node.sets() == ["ip link set dev ens1np0 mtu 9000"]
    assert node.roce("apply") == [] and node.sets() == []


def test_dscp_with_another_hardware_priority_is_mapped(node: Node) -> None:
    node.write(WANTED | {"dscp": 46})
    assert ("mlx5_0", "priority_of_dscp") in node.differences()
    node.roce("apply")
    assert "mlnx_qos -i ens0np0 --dscp2prio=set,46,3" in node.sets()
    assert node.differences(0) == set()


def test_settings_show_current_and_wanted_values(node: Node) -> None:
    node.roce("apply")
    rows = [json.loads(line) for line in node.roce("settings")]
    assert {row["setting"] for row in rows if row["device"] == "mlx5_0"} == {
        *("mtu", "dcbx", "trust", "pfc", "priority_of_dscp", "ecn", "traffic_class")
    }
    assert all(row["is"] == row["should"] for row in rows)


def test_interface_with_the_default_route_is_unchanged_unless_named(node: Node) -> None:
    (node.root / "proc/net").mkdir(parents=True)
    route = "Iface\tDestination\tGateway\nens0np0\t00000000\t0101A8C0\nens1np0\t0001A8C0\t00000000\n"
    (node.root / "proc/net/route").write_text(route)
    assert {device for device, _ in node.differences()} == {"mlx5_1"}
    node.write(WANTED | {"devices": ["mlx5_0"]})
    assert {device for device, _ in node.differences()} == {"mlx5_0"}


def test_infiniband_port_is_ignored(node: Node) -> None:
    (node.root / "sys/class/infiniband/mlx5_1/ports/1/link_layer").write_text("InfiniBand\n")
    assert {device for device, _ in node.differences()} == {"mlx5_0"}


def test_missing_device_is_reported_and_the_others_are_set(node: Node) -> None:
    node.write(WANTED | {"devices": ["mlx5_0", "mlx5_7"]})
    node.roce("apply")
    assert node.differences(0) == {("mlx5_7", "present")}


def test_adapter_that_refuses_is_reported_and_fails_the_service_after_the_others(node: Node) -> None:
    node.program(
        "ip", f"[ $4 = ens1np0 ] && echo $6 >{node.root}/sys/class/net/$4/mtu || {{ echo busy >&2; exit 2; }}"
    )
    reported = node.roce("apply", 1)
    assert any("busy" in line and "mlx5_0" in line for line in reported)
    assert not [setting for device, setting in node.differences() if device == "mlx5_1"]


def test_firmware_sets_ecn_at_the_next_boot_if_the_driver_cannot(node: Node) -> None:
    for net in ("ens0np0", "ens1np0"):
        (node.root / f"sys/class/net/{net}/ecn").rename(node.root / f"no-{net}")
    node.program(  # each adapter has its own firmware, and so its own mask
        "mlxconfig",
        f"""all="$*"; bus=${{all#*-d }}; mask={node.root}/mask-${{bus%% *}}; case "$all" in
        *query*) echo "  ROCE_CC_PRIO_MASK_P1   $(cat $mask 2>/dev/null || echo 1)";;
        *) for word in "$@"; do :; done; echo ${{word#*=}} >$mask;; esac""",
    )
    assert ("mlx5_0", "ecn") in node.differences()
    node.roce("apply")
    masks = {file.name: file.read_text().strip() for file in node.root.glob("mask-*")}
    assert len(masks) == 2 and set(masks.values()) == {"9"}
    assert node.differences(0) == set()


def test_unknown_arguments_are_refused(node: Node) -> None:
    assert node.roce("reset", 2) == []
