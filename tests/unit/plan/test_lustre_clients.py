"""Lustre over EFA: which nodes have it, and the program that sets up its network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.node_programs import lnet_program, lustre_over_efa
from gpufleet.plan.storage import lustre_interfaces
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec

LUSTRE = {
    "deployment": "persistent-2",
    "capacity": "38400 GiB",
    "throughput": "125 MB/s/TiB",
    "metadata_iops": 6000,
}


def parts(
    instance: str | list[str],
    *,
    efa: bool = True,
    zone: str = "us-east-1a",
    lustre: bool = True,
    **changes: object,
) -> list[str]:
    """The user data of a group in zone us-east-1a."""
    wanted: dict[str, object] = {"network": "efa", "zones": ["us-east-1a"], "local_nvme": {"use": "none"}}
    file_system = {"name": "data", "lustre": LUSTRE | {"efa": efa, "zone": zone}}
    site = cloud_site(
        group("a", instance, on_demand(0, 2), **(wanted | changes)),
        zones=["us-east-1a", "us-east-1b"],
        storage=[file_system if lustre else {"name": "data", "bucket": {"name": "atlas-data"}}],
    )
    (found,) = build_plan(spec(cloud=[site]), CATALOG).node_groups
    return list(found.user_data)


@pytest.mark.parametrize(
    ("instance", "interfaces"),
    [
        ("p5.48xlarge", 8),
        ("p5en.48xlarge", 8),
        ("p6-b200.48xlarge", 8),
        ("p6-b300.48xlarge", 16),
        ("g6e.48xlarge", 2),
        ("g6e.8xlarge", 1),
        ("trn1.32xlarge", 2),
    ],
)
def test_nodes_have_the_interfaces_that_aws_names_for_their_type(instance: str, interfaces: int) -> None:
    assert parts(instance) == [lustre_over_efa(interfaces)]


@pytest.mark.parametrize("instance", ["p4d.24xlarge", "g5.48xlarge", "trn2.48xlarge"])
def test_nodes_of_older_nitro_and_of_trn2_use_tcp(instance: str) -> None:
    assert parts(instance) == []


def test_nodes_use_tcp_without_efa_on_either_side_or_in_another_zone() -> None:
    assert parts("p5.48xlarge", network="ena") == []
    assert parts("p5.48xlarge", efa=False) == []
    assert parts("p5.48xlarge", zone="us-east-1b") == []
    assert parts("p5.48xlarge", lustre=False) == []


def test_group_of_unknown_types_uses_tcp() -> None:
    """A check says that the catalog lacks them."""
    made = group("a", "x99.unknown", on_demand(0, 1), network="efa", zones=["us-east-1a"])
    fleet = spec(cloud=[cloud_site(made, storage=[{"name": "data", "lustre": LUSTRE | {"efa": True}}])])
    (site,) = fleet.cloud
    assert lustre_interfaces(site, site.node_groups[0], (), CATALOG.lustre_efa_clients) == 0
    assert parts("p5.48xlarge", zones=["us-east-1a", "us-east-1b"]) == []


def test_own_parts_come_last() -> None:
    assert parts("p5.48xlarge", user_data=["#!/bin/sh\ntrue\n"])[1:] == ["#!/bin/sh\ntrue\n"]


STUBS = {
    "ip": "echo 'default via 10.0.0.1 dev ens32 proto dhcp metric 512'; echo 'default dev ens64 metric 1024'",
    "modprobe": '[ "$1" != "$(cat "$WORLD/lacks" 2>/dev/null)" ]',
    "dnf": '[ ! -e "$WORLD/offline" ] && cp "$WORLD/lnetctl" "$WORLD/bin/lnetctl"',
}
# Real lnetctl keeps networks in the kernel; this one in a file.
LNETCTL = """\
#!/bin/bash
echo "lnetctl $*" >> "$WORLD/calls"
case "$*" in
  "net show --net efa") grep @efa "$WORLD/nets" ;;
  "net del --net "*) touch "$WORLD/nets"; sed -i "/@$4/d" "$WORLD/nets" ;;
  "net add --net "*) [ "$6" != "$(cat "$WORLD/refused" 2>/dev/null)" ] || exit 1
    echo "    - nid: $6@$4" >> "$WORLD/nets" ;;
  "udsp show") cat "$WORLD/udsp" 2>/dev/null ;;
  "udsp add "*) echo "src: efa" > "$WORLD/udsp" ;;
esac
"""


class Node:
    """A stand-in node with RDMA devices: what its commands were called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices = folder / "infiniband"
        self.devices.mkdir()
        tools = folder / "bin"
        tools.mkdir()
        bodies = {
            name: f'#!/bin/bash\necho "{name} $*" >> "$WORLD/calls"\n{body}\n' for name, body in STUBS.items()
        }
        for name, text in {**bodies, "lnetctl": LNETCTL}.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        (folder / "program").write_text(lnet_program())

    def has(self, *names: str, driver: str = "efa") -> None:
        (self.folder / driver).mkdir(exist_ok=True)
        for name in names:
            (self.devices / name / "device").mkdir(parents=True)
            (self.devices / name / "device" / "driver").symlink_to(self.folder / driver)

    def start(self, interfaces: int) -> subprocess.CompletedProcess[str]:
        (self.folder / "calls").write_text("")
        return subprocess.run(
            ["bash", str(self.folder / "program"), str(interfaces), str(self.devices)],
            env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "WORLD": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        """What changed something."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if not line.startswith("ip ") and " show" not in line]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def of_p5() -> list[str]:
    """Names of a p5.48xlarge's 32 devices: eight PCIe switches with four each."""
    buses = (79, 96, 113, 130, 147, 164, 181, 198)
    return [f"rdmap{bus + place}s0" for bus in buses for place in range(4)]


def test_network_is_set_up_in_the_order_of_aws_s_guide(node: Node) -> None:
    node.has("rdmap36s0", "rdmap42s0")
    done = node.start(2)
    assert done.returncode == 0, done.stderr
    assert node.calls == [
        "modprobe lnet",
        "modprobe kefalnd ipif_name=ens32",
        "modprobe ksocklnd",
        "lnetctl lnet configure",
        "lnetctl net del --net efa",
        "lnetctl net del --net tcp",
        "lnetctl net add --net tcp --if ens32",
        "lnetctl net add --net efa --if rdmap36s0 --peer-credits 32",
        "lnetctl net add --net efa --if rdmap42s0 --peer-credits 32",
        "lnetctl set discovery 1",
        "lnetctl udsp add --src efa --priority 0",
        "modprobe lustre",
    ]


def test_each_pcie_switch_of_a_p5_gives_one_interface(node: Node) -> None:
    node.has(*of_p5())
    node.has("mlx5_0", driver="mlx5_core")
    assert node.start(8).returncode == 0
    added = [line.split()[6] for line in node.calls if "--net efa --if" in line]
    assert added == [
        "rdmap113s0",
        "rdmap130s0",
        "rdmap147s0",
        "rdmap164s0",
        "rdmap181s0",
        "rdmap198s0",
        "rdmap79s0",
        "rdmap96s0",
    ]


def test_second_run_changes_nothing_and_a_half_done_one_is_finished(node: Node) -> None:
    node.has("rdmap36s0", "rdmap42s0")
    (node.folder / "refused").write_text("rdmap42s0")
    assert node.start(2).returncode != 0
    (node.folder / "refused").unlink()
    assert node.start(2).returncode == 0
    added = [line.split()[-1] for line in (node.folder / "nets").read_text().splitlines()]
    assert added == ["ens32@tcp", "rdmap36s0@efa", "rdmap42s0@efa"]
    assert node.start(2).returncode == 0
    assert node.calls == []


def test_lustre_client_is_installed_where_it_is_missing(node: Node) -> None:
    node.has("rdmap36s0")
    (node.folder / "bin" / "lnetctl").rename(node.folder / "lnetctl")
    assert node.start(1).returncode == 0
    assert node.calls[0] == "dnf -q -y install lustre-client"


@pytest.mark.parametrize(
    ("devices", "file", "reported"),
    [
        (["a"], ("", ""), "this node has 1 EFA interfaces, and needs 2"),
        ([], ("", ""), "this node has 0 EFA interfaces, and needs 2"),
        (["a", "b"], ("lacks", "kefalnd"), "this kernel has no module of Lustre for EFA (kefalnd)"),
    ],
)
def test_node_that_cannot_says_why_and_keeps_tcp(
    node: Node, devices: list[str], file: tuple[str, str], reported: str
) -> None:
    node.has(*devices)
    if file[0]:
        (node.folder / file[0]).write_text(file[1])
    done = node.start(2)
    assert (done.returncode, done.stderr) == (
        1,
        f"gpufleet-lnet: {reported}; file systems are mounted over TCP\n",
    )
    assert not [line for line in node.calls if "net del" in line]


def test_missing_client_that_dnf_cannot_install_is_named(node: Node) -> None:
    node.has("rdmap36s0")
    (node.folder / "bin" / "lnetctl").unlink()
    (node.folder / "offline").touch()
    assert "no Lustre client, and dnf cannot install it" in node.start(1).stderr


def test_script_is_one_that_bash_and_systemd_take(tmp_path: Path) -> None:
    script = lustre_over_efa(8)
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    _, unit = script.split("gpufleet-lnet.service <<'GPUFLEET'\n")
    path = tmp_path / "gpufleet-lnet.service"
    path.write_text(unit.partition("GPUFLEET\n")[0].replace("/usr/local/sbin/gpufleet-lnet", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
