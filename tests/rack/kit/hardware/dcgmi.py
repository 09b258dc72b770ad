"""dcgmi: what of it roles and health checks call, asked of this host's hardware."""

import json
import sys

import state as hardware

NO_ENGINE = (
    "Error: unable to establish a connection to the specified host: localhost\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected."
)
# The letters of `dcgmi health -s`, and the subsystems they switch on.
SYSTEMS = {"p": "PCIe", "m": "Memory", "i": "Inforom", "t": "Thermal and Power", "n": "NVLink"}


def main(arguments):
    own_version = arguments.pop(0)
    if not arguments or arguments[0] in ("-v", "--version"):
        print(f"\ndcgmi  version: {own_version}\n")
        return 0
    engine = hardware.setting("dcgm")
    if not engine:
        print(NO_ENGINE)
        return 255
    state = hardware.load()
    command, *rest = arguments
    call = {"discovery": discovery, "health": health, "diag": diag, "group": group, "nvlink": nvlink}
    if command not in call:
        print(f"PARSE ERROR: Argument: {command}\n             Couldn't find match for argument")
        return 255
    return call[command](state, rest, engine)


def discovery(state, _arguments, _engine):
    found = hardware.gpus(state)
    bar = "+--------+----------------------------------------------------------------------+"
    print(f"{len(found)} GPUs found.\n{bar}")
    print(f"| GPU ID | {'Device Information':<69}|\n{bar}")
    for index, gpu in enumerate(found):
        print(f"| {index:<7}| {'Name: ' + gpu['name']:<69}|")
        print(f"| {'':<7}| {'PCI Bus ID: 0000' + gpu['bus_id'].upper():<69}|")
        print(f"| {'':<7}| {'Device UUID: ' + gpu['uuid']:<69}|\n{bar}")
    print(f"{state['nvswitches']} NvSwitches found.")
    return 0


def problems(state):
    """(GPU, system, severity, text) of everything that is wrong with the GPUs."""
    found = []
    for index, gpu in enumerate(hardware.gpus(state)):
        if gpu["lost"]:
            found.append((index, "PCIe", "Failure", "GPU is lost: it has fallen off the bus"))
        if gpu["pcie"]["replays"] > 8:
            found.append((index, "PCIe", "Warning", f"Detected {gpu['pcie']['replays']} PCIe replays"))
        volatile = gpu["ecc"]["volatile"]
        if volatile["dram_uncorrected"] or volatile["sram_uncorrected"]:
            count = volatile["dram_uncorrected"] + volatile["sram_uncorrected"]
            found.append((index, "Memory", "Failure", f"Detected {count} volatile double-bit ECC errors"))
        if gpu["remapped_rows"]["failure"]:
            found.append((index, "Memory", "Failure", "A row remapping failed"))
        if gpu["remapped_rows"]["pending"]:
            found.append((index, "Memory", "Warning", "A row remapping is pending: reset the GPU"))
        if {"hw_thermal_slowdown", "sw_thermal_slowdown"} & set(gpu["throttle"]):
            found.append((index, "Thermal", "Warning", "Detected a clock throttle for thermal reasons"))
        down = [str(number) for number, link in enumerate(gpu["nvlinks"]) if not link["active"]]
        if down:
            found.append((index, "NVLink", "Failure", f"NVLink links {', '.join(down)} are down"))
    return found


def health(state, arguments, engine):
    if "-s" in arguments or "--set" in arguments:
        flag = "-s" if "-s" in arguments else "--set"
        letters = arguments[arguments.index(flag) + 1]
        hardware.change_setting("dcgm", engine | {"watches": "pmitn" if letters == "a" else letters})
        print("Health monitor systems set successfully.")
        return 0
    if "--clear" in arguments:
        hardware.change_setting("dcgm", engine | {"watches": ""})
        print("Health monitor systems cleared successfully.")
        return 0
    if "-f" in arguments or "--fetch" in arguments:
        bar = "+--------------------------+--------------------------------------------+"
        print(f"{bar}\n| Health Monitor Systems                                                |\n{bar}")
        for letter, name in SYSTEMS.items():
            print(f"| {name:<24} | {'On' if letter in engine['watches'] else 'Off':<42} |")
        print(bar)
        return 0
    found = [item for item in problems(state) if engine["watches"]]
    worst = "Healthy"
    for _, _, severity, _ in found:
        worst = "Failure" if "Failure" in (severity, worst) else "Warning"
    if "-j" in arguments or "--json" in arguments:
        gpus = {
            str(index): {"children": {system: {"value": severity, "children": {"error": {"value": text}}}}}
            for index, system, severity, text in found
        }
        print(json.dumps({"body": {"Overall Health": {"value": worst, "children": gpus}}, "header": []}))
        return 0
    bar = "+---------------------------+----------------------------------------------------------+"
    print(f"{bar}\n| {'Health Monitor Report':<86}|\n{bar}")
    print(f"| {'Overall Health':<26}| {worst:<57}|\n{bar}")
    for index, system, severity, text in found:
        print(f"| {'GPU':<26}| {'':<57}|\n| -> {index:<23}| {severity:<57}|")
        print(f"|    -> {system:<20}| {text:<57}|\n{bar}")
    return 0


def diag(state, arguments, engine):
    bad = [item for item in problems(state) if item[2] == "Failure"]
    level = next((arguments[i + 1] for i, word in enumerate(arguments[:-1]) if word in ("-r", "--run")), "1")
    names = ["software", "pcie", "memory", "diagnostic", "nvbandwidth"][: {"1": 1, "2": 3}.get(level, 5)]
    broken = {"PCIe": "pcie", "Memory": "memory", "NVLink": "nvbandwidth"}
    # Level 1 looks at software only, and at devices that do not answer.
    failed = {broken.get(system, "software"): text for _, system, _, text in bad}
    verdict = {name: "Fail" if name in failed else "Pass" for name in names}
    if any(gpu["lost"] for gpu in hardware.gpus(state)):
        verdict["software"] = "Fail"
    if "-j" in arguments or "--json" in arguments:
        tests = [{"name": name, "results": [{"status": word}]} for name, word in verdict.items()]
        body = {"Detailed results": {"test_categories": [{"category": "Deployment", "tests": tests}]}}
        body["metadata"] = {"DCGM Version": engine["version"], "Driver Version Detected": driver()}
        print(json.dumps({"DCGM Diagnostic": body["Detailed results"], "metadata": body["metadata"]}))
    else:
        print("Successfully ran diagnostic for group.")
        bar = "+---------------------------+------------------------------------------------+"
        print(f"{bar}\n| Diagnostic                | Result                                         |\n{bar}")
        print(f"| DCGM Version              | {engine['version']:<47}|")
        print(f"| Driver Version Detected   | {driver():<47}|\n{bar}")
        for name, word in verdict.items():
            print(f"| {name:<26}| {word:<47}|")
        print(bar)
    return 226 if "Fail" in verdict.values() else 0


def driver():
    return hardware.loaded_module("nvidia") or ""


def group(state, _arguments, _engine):
    print(f"1 groups found.\n| DCGM_ALL_SUPPORTED_GPUS | {len(hardware.gpus(state))} GPUs |")
    return 0


def nvlink(state, _arguments, _engine):
    print("+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:")
    for index, gpu in enumerate(hardware.gpus(state)):
        print(
            f"    gpuId {index}:\n        " + " ".join("U" if li["active"] else "D" for li in gpu["nvlinks"])
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
