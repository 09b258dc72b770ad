"""The tools for InfiniBand adapters that need more than /sys: by the name they are called with."""

import re
import sys
from pathlib import Path

import state as hardware

COUNTERS = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "port_rcv_switch_relay_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortXmitConstraintErrors": "port_xmit_constraint_errors",
    "PortRcvConstraintErrors": "port_rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "VL15Dropped": "VL15_dropped",
    "PortXmitData": "port_xmit_data",
    "PortRcvData": "port_rcv_data",
    "PortXmitPkts": "port_xmit_packets",
    "PortRcvPkts": "port_rcv_packets",
}
LINK_TYPES = {"InfiniBand": "IB(1)", "Ethernet": "ETH(2)"}


def adapters():
    return [hca for hca in hardware.load()["hcas"] if hca["present"]]


def find(device):
    """The adapter of an mlx5 name, a bus address or an mst device."""
    for hca in adapters():
        short = hca["bus_id"].removeprefix("0000:")
        if device in (hca["name"], hca["bus_id"], short, mst_name(hca)):
            return hca
    return None


def mst_name(hca):
    number = adapters().index(hca)
    return f"/dev/mst/mt4129_pciconf{number}"


def perfquery(arguments):
    name = next((arguments[i + 1] for i, word in enumerate(arguments[:-1]) if word == "-C"), None)
    hca = find(name) if name else next(iter(adapters()), None)
    if hca is None:
        print("ibwarn: [1] mad_rpc_open_port: can't open UMAD port", file=sys.stderr)
        return 1
    port = hca["port"]
    if any(word in ("-R", "-r") for word in arguments):
        with hardware.changing() as state:
            for item in state["hcas"]:
                if item["name"] == hca["name"]:
                    item["port"]["counters"] = dict.fromkeys(item["port"]["counters"], 0)
        if "-R" in arguments:
            return 0
    print(f"# Port counters: Lid {port['lid']} port 1 (CapMask: 0x5A00)")
    for name, key in {"PortSelect": None, "CounterSelect": None, **COUNTERS}.items():
        value = {"PortSelect": "1", "CounterSelect": "0x0000"}.get(name) or port["counters"].get(key, 0)
        print(f"{name}:{'.' * (36 - len(name) - len(str(value)))}{value}")
    return 0


def ibdev2netdev(_arguments):
    for hca in adapters():
        up = "Up" if hca["port"]["state"] == "Active" else "Down"
        print(f"{hca['name']} port 1 ==> {hca['netdev']} ({up})")
    return 0


def mst(arguments):
    verb = arguments[0] if arguments else "help"
    if verb == "start":
        print("Starting MST (Mellanox Software Tools) driver set\nLoading MST PCI module - Success")
        hardware.change_setting("mst", True)
    elif verb == "stop":
        print("Stopping MST (Mellanox Software Tools) driver set")
        hardware.change_setting("mst", False)
    elif verb == "status":
        loaded = hardware.setting("mst")
        print(f"MST modules:\n------------\n    MST PCI module is {'' if loaded else 'not '}loaded\n")
        print("PCI devices:\n------------")
        heads = ("DEVICE_TYPE", "MST", "PCI", "RDMA", "NET", "NUMA")
        print("{:<23} {:<29} {:<9} {:<15} {:<15} {}".format(*heads))
        for hca in adapters():
            device = mst_name(hca) if loaded else "NA"
            bus = hca["bus_id"].removeprefix("0000:")
            print(
                f"ConnectX7(rev:0)        {device:<29} {bus:<9} {hca['name']:<15} net-{hca['netdev']:<11} "
                f"{hca['numa_node']}"
            )
    return 0


def mlxconfig(arguments):
    device = next(
        (arguments[i + 1] for i, word in enumerate(arguments[:-1]) if word in ("-d", "--dev")), None
    )
    hca = find(device) if device else None
    if hca is None:
        print(f"-E- Failed to open device: {device}. No such file or directory", file=sys.stderr)
        return 3
    if "reset" in arguments or "r" in arguments:
        return 0
    wanted = dict(word.split("=", 1) for word in arguments if re.match(r"^[A-Z0-9_]+=", word))
    values = {"LINK_TYPE_P1": LINK_TYPES[hca["link_type_next"]]} | hca["firmware_settings"]
    head = f"\nDevice #1:\n----------\n\nDevice type:        ConnectX7\nName:               {hca['board']}\n"
    head += f"Description:        {hca['type']}\nDevice:             {device}\n"
    if wanted:
        print(head)
        print("Configurations:                                          Next Boot       New")
        for name, value in wanted.items():
            print(f"        {name:<48}{values.get(name, 'N/A'):<16}{value}")
        print("\n Apply new Configuration? (y/n) [n] : ", end="")
        if not {"-y", "--yes"} & set(arguments) and sys.stdin.readline().strip() != "y":
            print("Aborting!")
            return 1
        print("y")
        with hardware.changing() as state:
            for item in state["hcas"]:
                if item["name"] == hca["name"]:
                    kind = wanted.get("LINK_TYPE_P1", "").upper()
                    if kind in ("1", "IB"):
                        item["link_type_next"] = "InfiniBand"
                    elif kind in ("2", "ETH"):
                        item["link_type_next"] = "Ethernet"
                    item["firmware_settings"] |= {k: v for k, v in wanted.items() if k != "LINK_TYPE_P1"}
        print("Applying... Done!\n-I- Please reboot machine to load new configurations.")
        return 0
    names = [word for word in arguments if re.fullmatch(r"[A-Z][A-Z0-9_]+", word)]
    print(head)
    print("Configurations:                                          Next Boot")
    for name, value in values.items():
        if not names or name in names:
            print(f"        {name:<48}{value}")
    unknown = [name for name in names if name not in values]
    if unknown:
        print(f"-E- Unknown Parameter: {unknown[0]}", file=sys.stderr)
        return 3
    return 0


def ofed_info(arguments):
    version = Path("/usr/share/ofed-version").read_text().strip()
    print(
        f"OFED-internal-{version}:"
        if "-s" in arguments
        else version
        if "-n" in arguments
        else f"DOCA_OFED-{version}:"
    )
    return 0


def mlnx_qos(arguments):
    """Priority flow control and trust of a port; kept until the next reboot, as in the driver."""
    options, words = {}, iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        options[name] = value if equals else next(words, "")
    interface = options.get("-i", options.get("--interface"))
    if interface not in [hca["netdev"] for hca in adapters()]:
        print(f"Netdev {interface} does not exist")
        return 1
    qos = hardware.setting(f"qos_{interface}", {"trust": "pcp", "pfc": "0,0,0,0,0,0,0,0", "cable": "7"})
    for names, key in ((("--trust",), "trust"), (("-f", "--pfc"), "pfc"), (("--cable_len",), "cable")):
        for name in names:
            if name in options:
                qos = qos | {key: options[name]}
    if "--dscp2prio" in options:
        _verb, dscp, priority = options["--dscp2prio"].split(",")
        qos["dscp2prio"] = qos.get("dscp2prio", {}) | {dscp: priority}
    hardware.change_setting(f"qos_{interface}", qos)
    enabled = "   ".join(qos["pfc"].split(","))
    print("DCBX mode: OS controlled")
    print(f"Priority trust state: {qos['trust']}")
    if qos["trust"] == "dscp":
        print("dscp2prio mapping:")
        reported = {int(dscp): int(priority) for dscp, priority in qos.get("dscp2prio", {}).items()}
        for priority in range(8):
            mapped = [dscp for dscp in range(63, -1, -1) if reported.get(dscp, dscp >> 3) == priority]
            print(f"\tprio:{priority} dscp:" + "".join(f"{dscp:02d}," for dscp in mapped))
    print(f"default priority:\nCable len: {qos['cable']}\nPFC configuration:")
    print("\tpriority    0   1   2   3   4   5   6   7")
    print(f"\tenabled     {enabled}")
    return 0


def cma_roce_tos(arguments):
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    device = options.get("-d", "mlx5_0")
    if "-t" in options:
        hardware.change_setting(f"tos_{device}", options["-t"])
    print(hardware.setting(f"tos_{device}", "0"))
    return 0


TOOLS = {
    "perfquery": perfquery,
    "ibdev2netdev": ibdev2netdev,
    "mst": mst,
    "mlxconfig": mlxconfig,
    "mstconfig": mlxconfig,
    "ofed_info": ofed_info,
    "mlnx_qos": mlnx_qos,
    "cma_roce_tos": cma_roce_tos,
}

if __name__ == "__main__":
    sys.exit(TOOLS[Path(sys.argv[1]).name](sys.argv[2:]))
