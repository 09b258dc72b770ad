"""The fabric's roles on a rack: rdma, roce and subnet_manager, judged by the real programs on the hosts.

The managers' opensm is the real one, on a fabric that ibsim simulates on a node: a leaf for each rail, two
spines, a port for each manager. dgx01 is on InfiniBand, dgx02 has Ethernet ports.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpufleet.catalog import load_catalog
from tests.rack.ib_networks import UMAD2SIM, network, port_guid, switch_guid
from tests.rack.lab import Lab, fleet_text
from tests.rack.roles.proof import RoleRuns, play, prove

RAILS = list(load_catalog().system("dgx-h100").rails)
# Adapters of the simulated fabric: two nodes with eight rails, then the managers.
MEMBERS = [port_guid(3), port_guid(11)]
MANAGERS = {"ctl01": port_guid(16), "ctl02": port_guid(17)}
FABRIC = f"""\
fabric:
      kind: infiniband
      speed: ndr
      topology: rail-optimized
      rails: [{", ".join(RAILS)}]
      switches:
        - {{name: spine1, tier: spine, guid: "{switch_guid(0)}"}}
        - {{name: spine2, tier: spine, guid: "{switch_guid(1)}"}}
      subnet_managers:
        - {{host: ctl01, priority: 15}}
        - {{host: ctl02, priority: 14, port_guid: "{MANAGERS["ctl02"]}"}}
      partitions:
        - {{name: tenant, pkey: "0x0012", port_guids: ["{MEMBERS[0]}", "{MEMBERS[1]}"]}}
"""
IB, ETH = "dgx01", "dgx02"
# The adapter of the node on InfiniBand that comes in the wrong mode.
WRONG = 2
# A standby that takes over within seconds instead of 40 s.
QUICK = {"subnet_manager_poll_interval_ms": 1000, "subnet_manager_poll_retries": 3}
ROCE = {"roce_devices": [], "roce_interfaces": [], "rdma_kind": "roce"}
DROP_IN = "/etc/systemd/system/gpufleet-opensm.service.d"
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends"
# The fabric does not use the node's loopback: managers reach it over the rack's network.
SIMULATE = """
mkfifo /run/ibsim.in
systemd-run -q --unit ibsim sh -c 'ibsim -s -r -l 7070 /run/network <>/run/ibsim.in'
"""


def fleet() -> str:
    text = fleet_text(gpu_nodes=2, controllers=2, login=False)
    line = next(line for line in text.splitlines() if line.strip().startswith("fabric:"))
    return text.replace(line.strip() + "\n", FABRIC)


@pytest.fixture(scope="module")
def lab(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two controllers with an InfiniBand port, a node on InfiniBand, a node on Ethernet."""
    made = Lab.up(tmp_path_factory.mktemp("fabric"), fleet())
    try:
        made.add_vendor_repository(*made.healthy)
        adapter = made.hardware(IB).state()["hcas"][0]
        for number, (host, guid) in enumerate(MANAGERS.items()):
            with made.hardware(host).changing() as state:
                state["hcas"] = [adapter | {"guid": guid, "description": host, "netdev": f"ibp{number}s0"}]
        with made.hardware(IB).changing() as state:
            state["hcas"][WRONG] |= {"link_layer": "Ethernet", "link_type_next": "Ethernet"}
        ethernet(made, ETH)
        made.rack.stop(ETH)
        made.rack.start(ETH)
        yield made
    finally:
        made.down()


def ethernet(lab: Lab, host: str) -> None:
    """The adapters of a host have Ethernet ports from its next boot on."""
    with lab.hardware(host).changing() as state:
        for hca in state["hcas"]:
            hca |= {"link_type_next": "Ethernet", "netdev": f"ens{int(hca['bus_id'][5:7], 16)}f0np0"}


def wait_for(done: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.3)


@pytest.fixture(scope="module")
def rdma(lab: Lab) -> RoleRuns:
    """The role's three runs: on a manager and on the node with InfiniBand."""
    return prove(lab, ["rdma"], f"{IB},ctl01")


def test_bare_node_gets_drivers_modules_and_names(lab: Lab, rdma: RoleRuns) -> None:
    assert lab.sh(IB, "ofed_info -n").startswith("26.04")
    assert "doca-ofed" in lab.sh(IB, "apt-mark showhold")
    # Modules of the new driver do not match the loaded one: they wait for the reboot.
    lab.sh(IB, "test ! -e /sys/module/ib_umad")
    lab.sh("ctl01", "test -e /sys/module/ib_umad")
    assert "ib_ipoib" not in lab.sh(IB, "cat /etc/modules-load.d/*.conf; ls /sys/module")
    assert "blacklist ib_ipoib" in lab.sh(IB, "cat /etc/modprobe.d/gpufleet-rdma.conf")
    rules = lab.sh(IB, "grep -v '^#' /etc/udev/rules.d/60-rdma-persistent-naming.rules").splitlines()
    places = [hca["bus_id"] for hca in lab.hardware(IB).state()["hcas"]]
    assert len(rules) == 8
    for rule, name, place in zip(rules, RAILS, places, strict=True):
        assert f'KERNELS=="{place}"' in rule and f'rdma-name {place} {name}"' in rule
    # A manager has its own adapter, which is not a rail of a node.
    lab.sh("ctl01", "test ! -e /etc/udev/rules.d/60-rdma-persistent-naming.rules")


def test_libraries_stay_while_a_job_runs(lab: Lab, rdma: RoleRuns) -> None:
    lab.sh(IB, "dpkg -r perftest >/dev/null; cp /bin/sleep /run/slurmstepd")
    lab.sh(IB, "systemd-run -q --unit=step /run/slurmstepd 600")
    try:
        refused = play(lab, ["rdma"], IB)
    finally:
        lab.sh(IB, "systemctl stop step")
    assert "RDMA drivers and libraries change, and dgx01 is in use by job step" in refused.messages()
    assert "perftest" not in lab.sh(IB, "dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n' | grep ^ii")
    assert play(lab, ["rdma"], IB).changed == {(IB, "rdma : Install packages")}


def test_wrong_port_mode_and_old_driver_request_a_reboot_that_fixes_them(lab: Lab, rdma: RoleRuns) -> None:
    assert (IB, "rdma : Configure adapters") in rdma.first.changed
    wanted = {hca["name"]: hca["link_type_next"] for hca in lab.hardware(IB).state()["hcas"]}
    assert wanted == dict.fromkeys(RAILS, "InfiniBand")
    link = f"/sys/class/infiniband/{RAILS[WRONG]}/ports/1/link_layer"
    assert lab.sh(IB, f"cat {link}").strip() == "Ethernet"
    for run in (rdma.check, rdma.first, rdma.second):
        assert [event.kind for event in run.of("Report manual steps", IB)] == ["ok"]

    lab.rack.stop(IB)
    lab.rack.start(IB)
    assert lab.sh(IB, f"cat {link}").strip() == "InfiniBand"
    assert lab.sh(IB, "cat /sys/module/mlx5_core/version") == lab.sh(IB, "modinfo -F version mlx5_core")
    lab.sh(IB, "for m in ib_umad rdma_ucm; do [ -d /sys/module/$m ] || exit 1; done")
    # Its start at boot loads ib_ipoib unless its configuration says no.
    lab.sh(IB, "systemctl is-enabled openibd && systemctl start openibd && test ! -d /sys/module/ib_ipoib")
    again = play(lab, ["rdma"], IB)
    assert not again.changed and not again.result.failures
    assert [event.kind for event in again.of("Report manual steps", IB)] == ["skipped"]


def test_missing_adapter_is_reported_and_keeps_the_names_of_the_others(lab: Lab, rdma: RoleRuns) -> None:
    before = lab.sh(IB, "cat /etc/udev/rules.d/60-rdma-persistent-naming.rules")
    with lab.hardware(IB).changing() as state:
        state["hcas"][3]["present"] = False
    try:
        run = play(lab, ["rdma"], IB)
        assert not run.result.failures and not run.changed
        assert [event.kind for event in run.of("Report manual steps", IB)] == ["ok"]
        assert lab.sh(IB, "cat /etc/udev/rules.d/60-rdma-persistent-naming.rules") == before
    finally:
        with lab.hardware(IB).changing() as state:
            state["hcas"][3]["present"] = True


def test_ports_outside_the_fabric_are_not_changed(lab: Lab, rdma: RoleRuns) -> None:
    variables = {"rdma_devices": [], "rdma_adapters": 4, "rdma_kind": "infiniband"}
    before = lab.hardware(ETH).state()["hcas"]
    run = play(lab, ["rdma"], ETH, variables=variables | {"rdma_stack": "inbox"})
    assert not run.result.failures
    assert lab.hardware(ETH).state()["hcas"] == before
    assert [event.kind for event in run.of("Report manual steps", ETH)] == ["ok"]
    assert lab.sh(ETH, "dpkg -l doca-ofed 2>/dev/null | grep -c ^ii", code=None).strip() == "0"


@pytest.fixture(scope="module")
def roce(lab: Lab) -> RoleRuns:
    return prove(lab, ["roce"], ETH, variables=ROCE)


def settings(lab: Lab) -> dict[tuple[str, str], object]:
    """Settings of each interface, from the vendor's programs."""
    found: dict[tuple[str, str], object] = {}
    for hca in lab.hardware(ETH).state()["hcas"]:
        net, device = hca["netdev"], hca["name"]
        qos = lab.sh(
            ETH, f"mlnx_qos -i {net}; cat /sys/class/net/{net}/mtu; cma_roce_tos -d {device}"
        ).splitlines()
        found[net, "trust"] = next(line.split()[-1] for line in qos if "trust state" in line)
        found[net, "pfc"] = "".join(next(line for line in qos if "enabled" in line).split()[1:])
        found[net, "mtu"], found[net, "tos"] = qos[-2:]
    return found


def lossless(lab: Lab) -> dict[tuple[str, str], object]:
    right = {"trust": "dscp", "pfc": "00010000", "mtu": "9000", "tos": "104"}
    nets = [hca["netdev"] for hca in lab.hardware(ETH).state()["hcas"]]
    return {(net, name): value for net in nets for name, value in right.items()}


def test_ethernet_is_lossless_on_every_rail(lab: Lab, roce: RoleRuns) -> None:
    assert settings(lab) == lossless(lab)


def test_settings_survive_a_reboot_and_a_run_changes_nothing(lab: Lab, roce: RoleRuns) -> None:
    lab.rack.stop(ETH)
    lab.rack.start(ETH)
    wait_for(lambda: settings(lab) == lossless(lab), 15)
    assert lab.sh(ETH, "systemctl is-active gpufleet-roce.service").strip() == "active"
    run = play(lab, ["roce"], ETH, variables=ROCE)
    assert not run.changed and not run.result.failures


def test_changed_mtu_is_the_only_setting_that_is_reset(lab: Lab, roce: RoleRuns) -> None:
    net = lab.hardware(ETH).state()["hcas"][1]["netdev"]
    lab.sh(ETH, f"ip link set {net} mtu 1500")
    first = play(lab, ["roce"], ETH, variables=ROCE)
    assert first.changed == {(ETH, "roce : Enable and start gpufleet-roce")}
    assert settings(lab) == lossless(lab)
    log = lab.sh(ETH, "journalctl -q -o cat -u gpufleet-roce.service --since -1min | grep -- '->'")
    assert f"{net}: mtu 1500 -> 9000" in log.splitlines()[-1:]


def test_missing_rail_does_not_stop_the_setup_of_the_others(lab: Lab, roce: RoleRuns) -> None:
    variables = ROCE | {"roce_devices": [*RAILS, "mlx5_8"]}
    for again in (False, True):
        run = play(lab, ["roce"], ETH, variables=variables)
        assert not run.result.failures and bool(run.changed) is not again
        assert [event.kind for event in run.of("Report manual steps", ETH)] == ["ok"]
    assert settings(lab) == lossless(lab)
    line = json.loads(lab.sh(ETH, "/usr/lib/gpufleet/roce differences").strip())
    assert line["device"] == "mlx5_8" and line["setting"] == "present"


@pytest.fixture(scope="module")
def fabric(lab: Lab, rdma: RoleRuns) -> str:
    """The simulated fabric on the node, with programs of the managers that use it: the node's address."""
    text = network(nodes=2, rails=8, leaves=8, spines=2, managers=2, by_rail=True)
    address = lab.rack.site.host(IB).address

    def install(host: str) -> None:
        lab.sh(host, f"{INSTALL} {'ibsim-utils' if host == IB else 'libumad2sim0'}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(install, (IB, *MANAGERS)))
    lab.sh(IB, f"cat >/run/network <<'END'\n{text}END\n{SIMULATE}")
    for number, host in enumerate(MANAGERS):
        variables = f"SIM_HOST=SM{number} IBSIM_SERVER_NAME={address} IBSIM_SERVER_PORT=7070"
        drop_in = f"[Service]\nEnvironment=LD_PRELOAD={UMAD2SIM} {variables}\n"
        lab.sh(host, f"mkdir -p {DROP_IN}; cat >{DROP_IN}/sim.conf <<'END'\n{drop_in}END")
    return address


@pytest.fixture(scope="module")
def managers(lab: Lab, fabric: str) -> RoleRuns:
    """The role's three runs on both managers."""
    return prove(lab, ["subnet_manager"], "ctl01,ctl02", variables=QUICK)


def ask(lab: Lab, address: str, command: str) -> str:
    """Output of a program at the first rail of the first node."""
    variables = f"LD_PRELOAD={UMAD2SIM} SIM_HOST=N0_0 IBSIM_SERVER_NAME={address} IBSIM_SERVER_PORT=7070"
    return lab.sh(IB, f"cd /run; env {variables} {command}", code=None)


def log(lab: Lab, host: str) -> str:
    return lab.sh(host, "cat /var/log/opensm.log")


def test_master_brings_the_subnet_up_with_the_configured_routing(
    lab: Lab, fabric: str, managers: RoleRuns
) -> None:
    wait_for(lambda: "SUBNET UP" in log(lab, "ctl01"))
    reported = log(lab, "ctl01")
    assert "updn tables configured on all switches" in reported
    assert "Entering MASTER state" in reported
    assert "ERR" not in reported.replace("ERR 5411", "")
    assert "SMINFO_MASTER" in ask(lab, fabric, "sminfo") and "priority 15" in ask(lab, fabric, "sminfo")
    journal = lab.sh("ctl01", "journalctl -q -o cat -u gpufleet-opensm.service")
    assert "Unrecognized" not in journal and "Entering MASTER" in journal
    for host in MANAGERS:
        assert lab.sh(host, "systemctl is-enabled opensm.service", code=None).strip() == "masked"
        assert lab.sh(host, "pgrep -xc opensm").strip() == "1"


def test_partitions_are_set_only_on_their_members(lab: Lab, fabric: str, managers: RoleRuns) -> None:
    wait_for(lambda: "SUBNET UP" in log(lab, "ctl01"))
    for index, own in ((3, True), (11, True), (0, False), (4, False)):
        keys = ask(lab, fabric, f"smpquery -G pkeys {port_guid(index)}")
        assert "0xffff" in keys
        assert ("0x8012" in keys) is own


def test_standby_takes_over_only_when_the_host_of_the_master_fails(
    lab: Lab, fabric: str, managers: RoleRuns
) -> None:
    wait_for(lambda: "SUBNET UP" in log(lab, "ctl01"))
    waits = log(lab, "ctl02")
    assert "Entering STANDBY state" in waits and "Entering MASTER state" not in waits

    lab.sh(IB, "echo 'Unlink \"SM0\"[1]' >/run/ibsim.in")
    lab.rack.stop("ctl01", force=True)
    try:
        wait_for(lambda: "Entering MASTER state" in log(lab, "ctl02"))
        wait_for(lambda: "priority 14" in ask(lab, fabric, "sminfo"))
    finally:
        lab.rack.start("ctl01")


def test_manager_without_a_port_gets_everything_except_a_running_opensm(
    lab: Lab, fabric: str, managers: RoleRuns
) -> None:
    hardware = lab.hardware("ctl02")
    with hardware.changing() as state:
        state["hcas"][0]["present"] = False
    try:
        for changed in (True, False):
            run = play(lab, ["subnet_manager"], "ctl02", variables=QUICK)
            assert not run.result.failures and bool(run.changed) is changed
        assert [event.kind for event in run.of("Report missing InfiniBand port")] == ["ok"]
        assert lab.sh("ctl02", "systemctl is-active gpufleet-opensm", code=None).strip() == "inactive"
        assert lab.sh("ctl02", "systemctl is-enabled gpufleet-opensm").strip() == "enabled"
    finally:
        with hardware.changing() as state:
            state["hcas"][0]["present"] = True


def test_values_that_opensm_does_not_know_are_refused(lab: Lab) -> None:
    run = play(lab, ["subnet_manager"], "ctl01", variables={"subnet_manager_root_guids": ["spine1"]})
    assert run.result.failed_hosts == ("ctl01",)
    assert "spine1" in run.messages() and "Correct the site's `fabric`" in run.messages()
