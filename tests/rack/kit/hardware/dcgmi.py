"""dcgmi: what of it roles and health checks call, asked of this host's hardware."""

import json
import sys
import textwrap

import state as hardware

NO_ENGINE = (
    "Error: unable to establish a connection to the specified host: localhost\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected."
)
# The letters of `dcgmi health -s`, and the systems they switch on, named as `health -f` names them.
SYSTEMS = {
    "p": ("PCIe",),
    "m": ("Memory",),
    "i": ("InfoROM",),
    "t": ("Thermal", "Power"),
    "n": ("NVLINK",),
    "d": ("Driver",),
    "x": ("ConnectX",),
}
# In the order of the library; there is no letter for SM, and only `a` is for switches.
SHOWN = (
    "PCIe",
    "NVLINK",
    "Memory",
    "SM",
    "InfoROM",
    "Thermal",
    "Power",
    "Driver",
    "NvSwitch NF",
    "NvSwitch F",
)
ALL = ("PCIe", "NVLINK", "Memory", "InfoROM", "Thermal", "Power", "Driver", "NvSwitch NF", "NvSwitch F")
GENERIC_ERROR = 253
WRAPPED = 54


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
            found.append((index, "Driver", "Failure", f"GPU {index} has fallen off the bus."))
        replays = gpu["pcie"]["replays"]
        if replays > 8:
            text = f"Detected more than 8 PCIe replays per minute for GPU {index} : {replays}"
            found.append((index, "PCIe", "Warning", text))
        volatile = gpu["ecc"]["volatile"]
        count = volatile["dram_uncorrected"] + volatile["sram_uncorrected"]
        if count:
            text = f"Detected {count} volatile double-bit ECC error(s) in GPU {index}."
            found.append((index, "Memory", "Failure", text))
        if gpu["remapped_rows"]["failure"]:
            text = f"GPU {index} had uncorrectable memory errors and row remapping failed."
            found.append((index, "Memory", "Failure", text))
        if {"hw_thermal_slowdown", "sw_thermal_slowdown"} & set(gpu["throttle"]):
            text = f"Detected clocks event due to thermal violation in GPU {index}."
            found.append((index, "Thermal", "Warning", text))
        for link in (number for number, link in enumerate(gpu["nvlinks"]) if not link["active"]):
            found.append((index, "NVLINK", "Failure", f"GPU {index}'s NvLink link {link} is currently down"))
    return found


def tree(left, right, header, rows):
    """A table as DCGM's tools draw it: (level, label, value) with the deeper levels marked."""
    line = "+{}+{}+".format("-" * (left - 1), "-" * (right - 2))
    print(line)
    if header:
        print(f"| {header:<{left + right - 3}}|\n{line.replace('-', '=')}")
    for level, label, value in rows:
        marked = f"{'-> ' if level and label else '':>{level * 3}}{label}"
        print(f"| {marked:<{left - 3}} | {value:<{right - 4}} |")
    print(line)


def health(state, arguments, engine):
    watched = engine["watches"]
    if "-s" in arguments or "--set" in arguments:
        flag = "-s" if "-s" in arguments else "--set"
        letters = arguments[arguments.index(flag) + 1]
        if letters != "a" and (len(set(letters)) != len(letters) or set(letters) - set(SYSTEMS)):
            print("PARSE ERROR: Argument: -s (--set)\n             Invalid flags detected")
            return GENERIC_ERROR
        chosen = ALL if letters == "a" else [name for letter in letters for name in SYSTEMS[letter]]
        hardware.change_setting("dcgm", engine | {"watches": sorted(chosen)})
        print("Health monitor systems set successfully.")
        return 0
    if "--clear" in arguments:
        hardware.change_setting("dcgm", engine | {"watches": []})
        print("Health monitor systems cleared successfully.")
        return 0
    as_json = "-j" in arguments or "--json" in arguments
    if "-f" in arguments or "--fetch" in arguments:
        print("Health monitor systems report")
        states = {name: "On" if name in watched else "Off" for name in SHOWN}
        if as_json:
            print(json.dumps({"body": {name: {"value": value} for name, value in states.items()}}, indent=3))
        else:
            tree(18, 70, "", [(0, name, value) for name, value in states.items()])
        return 0
    if not watched:
        print("Error: Health watches not enabled. Please enable watches. ")
        return GENERIC_ERROR
    found = [item for item in problems(state) if item[1] in watched]
    show_health(found, as_json)
    return 0


def worst(severities):
    return next((word for word in ("Failure", "Warning") if word in severities), "Healthy")


def show_health(found, as_json):
    overall = worst([severity for _, _, severity, _ in found])
    gpus = {}
    for index, system, severity, text in found:
        name = system if system == "Driver" else f"{system} system"
        gpus.setdefault(index, {}).setdefault(name, []).append((severity, text))
    if as_json:
        children = {
            str(index): {
                "children": {
                    "Errors": {
                        "children": {
                            name: {
                                "overflow": [", ".join(text for _, text in reported)],
                                "value": worst([severity for severity, _ in reported]),
                            }
                            for name, reported in systems.items()
                        }
                    }
                },
                "value": worst([severity for reported in systems.values() for severity, _ in reported]),
            }
            for index, systems in gpus.items()
        }
        body = {"Overall Health": {"value": overall}} | ({"GPU": {"children": children}} if children else {})
        print(json.dumps({"body": body, "header": ["Health Monitor Report"]}, indent=3))
        return
    rows = [(0, "Overall Health", overall)]
    if gpus:
        rows.append((0, "GPU", ""))
    for index, systems in gpus.items():
        rows.append(
            (1, str(index), worst([severity for reported in systems.values() for severity, _ in reported]))
        )
        rows.append((2, "Errors", ""))
        for name, reported in systems.items():
            rows.append((3, name, worst([severity for severity, _ in reported])))
            wrapped = textwrap.wrap(", ".join(text for _, text in reported), WRAPPED)
            rows += [(3, "", part) for part in wrapped]
    tree(28, 60, "Health Monitor Report", rows)


# Test -> its category; the tests of a level are those of the levels below as well.
CATEGORIES = {
    "software": "Deployment",
    "memory": "Hardware",
    "pcie": "Integration",
    "diagnostic": "Hardware",
    "nvbandwidth": "Integration",
}
LEVELS = {"1": 1, "2": 3}
# System of `dcgmi health` -> test, code, category and severity of its failure (dcgm_errors.h of 4.6.0).
FAILURES = {
    "Driver": ("software", 120, 15, 2),
    "Memory": ("memory", 52, 10, 2),
    "PCIe": ("pcie", 3, 13, 2),
    "NVLINK": ("nvbandwidth", 14, 11, 4),
}


def diag(state, arguments, engine):
    level = next((arguments[i + 1] for i, word in enumerate(arguments[:-1]) if word in ("-r", "--run")), "1")
    names = list(CATEGORIES)[: LEVELS.get(level, len(CATEGORIES))]
    warnings = {}
    for index, system, severity, text in problems(state):
        test, code, category, rank = FAILURES.get(system, FAILURES["Driver"])
        if severity == "Failure" and test in names:
            warning = {"error_category": category, "error_id": code, "error_severity": rank, "warning": text}
            warnings.setdefault((test, index), []).append(warning)
    verdict = {name: "Fail" if any(test == name for test, _ in warnings) else "Pass" for name in names}
    if "-j" in arguments or "--json" in arguments:
        print(json.dumps(diag_report(state, engine, verdict, warnings), indent=2))
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


def diag_report(state, engine, verdict, warnings):
    """The report as DCGM 4 prints it: results of each GPU below tests below categories."""
    indexes = range(len(hardware.gpus(state)))
    categories = {}
    for name, status in verdict.items():
        results = []
        for index in indexes:
            result = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": index}
            result["status"] = "Fail" if (name, index) in warnings else "Pass"
            if (name, index) in warnings:
                result["warnings"] = warnings[name, index]
            results.append(result)
        test = {"name": name, "results": results, "test_summary": {"status": status}}
        categories.setdefault(CATEGORIES[name], []).append(test)
    entities = [{"device_id": "2330", "entity_id": index, "serial_num": "0"} for index in indexes]
    return {
        "DCGM Diagnostic": {
            "test_categories": [{"category": each, "tests": tests} for each, tests in categories.items()]
        },
        "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"Driver Version Detected": driver(), "version": engine["version"]},
    }


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
