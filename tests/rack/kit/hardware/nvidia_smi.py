"""nvidia-smi on the hardware of this host: the queries, and the settings that roles change."""

import sys
import time

import smi_fields
import smi_mig
import smi_xml
import state as hardware

CUDA = {570: "12.8", 575: "12.9", 580: "13.0", 595: "13.2"}
INFOROM_CORRUPT = 14
# The header of a field of processes.
APPS = {"used_memory": "used_gpu_memory [MiB]", "used_gpu_memory": "used_gpu_memory [MiB]"}
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
LOST = "Unable to determine the device handle for GPU{index}: {bus}: Unknown Error"


def fail(code, text, stream=sys.stdout):
    print(text, file=stream)
    sys.exit(code)


def main(arguments):
    """Answer, and below the answer warn of corrupt InfoROMs, with an exit code of its own."""
    code = answer(arguments)
    corrupt = [gpu for gpu in hardware.gpus(hardware.load()) if gpu.get("inforom_corrupt")]
    for gpu in corrupt:
        print(f"WARNING: infoROM is corrupted at gpu {gpu['bus_id']}")
    return INFOROM_CORRUPT if corrupt and code == 0 else code


def answer(arguments):
    state = hardware.load()
    driver = hardware.load_driver(state)
    library = hardware.library_version()
    if driver is None:
        fail(9, NO_DRIVER)
    if driver != library:
        short = ".".join(library.split(".")[:2])
        fail(18, f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {short}")
    if not hardware.gpus(state):
        fail(6, "No devices were found")
    options = parse(arguments)
    chosen = choose(state, options)
    for verb in ("--query-gpu", "--query-remapped-rows", "--query-retired-pages", "--query-compute-apps"):
        if verb in options:
            return query(verb, state, chosen, options)
    if arguments[:1] == ["nvlink"]:
        return nvlink(state, chosen, arguments[1:])
    if arguments[:1] == ["mig"]:
        return smi_mig.main(state, choose(state, options), arguments[1:])
    if arguments[:1] == ["topo"]:
        return topology(state)
    if "-L" in options or "--list-gpus" in options:
        return list_gpus(state, chosen)
    if "-q" in options or "--query" in options:
        stop_at_lost(state, chosen)
        if "-x" not in options and "--xml-format" not in options:
            fail(255, "this stand-in prints the whole log as XML only: nvidia-smi -q -x", sys.stderr)
        sys.stdout.write(smi_xml.document(state, chosen, cuda(driver)))
        return 0
    if change(state, chosen, options):
        return 0
    if arguments and arguments[0] in ("-h", "--help", "--version"):
        version = f"NVIDIA-SMI version  : {driver}\nNVML version        : {'.'.join(driver.split('.')[:2])}"
        print(f"{version}\nDRIVER version      : {driver}\nCUDA Version        : {cuda(driver)}")
        return 0
    return table(state, chosen, driver)


def cuda(driver):
    return CUDA.get(int(driver.split(".")[0]), "13.0")


def parse(arguments):
    """Options with their values, whether given as `--x=y` or `--x y`."""
    takes = {"-i", "--id", "-pm", "-e", "-pl", "-lgc", "-c", "-mig", "-f", "-l", "-p", "-am", "-ac", "-lmc"}
    takes |= {"--format", "--persistence-mode", "--ecc-config", "--power-limit", "--compute-mode"}
    options, words = {}, iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        options[name] = value if equals else next(words, "") if name in takes else True
    return options


def choose(state, options):
    """The indexes that `-i` names by index, UUID, serial or bus address; all without it."""
    found = hardware.gpus(state)
    wanted = options.get("-i", options.get("--id"))
    if wanted is None:
        return list(range(len(found)))
    chosen = []
    for name in wanted.split(","):
        for index, gpu in enumerate(found):
            bus = smi_fields.pci_id(gpu)
            if name in (str(index), gpu["uuid"], gpu["serial"]) or bus.endswith(name.upper()):
                chosen.append(index)
                break
        else:
            fail(6, "No devices were found")
    return chosen


def stop_at_lost(state, chosen):
    """A GPU that has fallen off the bus ends the query, as it does with the real tool."""
    for index in chosen:
        gpu = hardware.gpus(state)[index]
        if gpu["lost"]:
            fail(15, LOST.format(index=index, bus=smi_fields.pci_id(gpu)))


def query(verb, state, chosen, options):
    stop_at_lost(state, chosen)
    style = str(options.get("--format", "csv")).split(",")
    names = [name.strip() for name in str(options[verb]).split(",")]
    rows = []
    for index in chosen:
        gpu = hardware.gpus(state)[index]
        known = smi_fields.fields(gpu, index, state)
        known |= {f"remapped_rows.{k}": v for k, v in known.items() if not k.startswith("remapped_rows")}
        known["timestamp"] = (time.strftime("%Y/%m/%d %H:%M:%S.000"), "")
        if verb == "--query-retired-pages":
            rows += retired_pages(known, names)
        if verb in ("--query-retired-pages", "--query-compute-apps"):
            continue
        for name in names:
            if name not in known:
                fail(2, f'Field "{name}" is not a valid field to query.\n')
        rows.append([known[name] for name in names])
    if "noheader" not in style:
        units = [unit for _, unit in rows[0]] if rows else [""] * len(names)
        heads = [APPS.get(name, name) if verb == "--query-compute-apps" else name for name in names]
        print(
            ", ".join(f"{head} [{unit}]" if unit else head for head, unit in zip(heads, units, strict=True))
        )
    bare = "nounits" in style
    for row in rows:
        print(", ".join(v if bare or not u or v == smi_fields.NOT_SUPPORTED else f"{v} {u}" for v, u in row))
    return 0


def retired_pages(known, names):
    """A row for each cause, without an address, as of a GPU that retires no pages."""
    address = {"retired_pages.address": (smi_fields.NOT_SUPPORTED, "")}
    causes = [{"retired_pages.cause": (cause, "")} for cause in ("Single Bit ECC", "Double Bit ECC")]
    return [[(known | address | cause)[name] for name in names] for cause in causes]


def list_gpus(state, chosen):
    for index in chosen:
        gpu = hardware.gpus(state)[index]
        if gpu["lost"]:
            print(LOST.format(index=index, bus=smi_fields.pci_id(gpu)))
        else:
            print(f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})")
            smi_mig.list_devices(gpu)
    return 0


def nvlink(state, chosen, words):
    """Links and their errors. Without an active link, and in MIG mode, one line stands in their place."""
    wanted = parse(words)
    chosen = choose(state, wanted)
    stop_at_lost(state, chosen)
    errors = "-e" in words or "--errorcounters" in words
    for index in chosen:
        gpu = hardware.gpus(state)[index]
        print(f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})")
        if gpu["mig"]:
            print("Nvlink queries are not supported for Devices in MIG mode")
            continue
        if not any(link["active"] for link in gpu["nvlinks"]):
            print("NVML: Unable to retrieve NVLink information as all links are inActive")
            continue
        for number, link in enumerate(gpu["nvlinks"]):
            if errors:
                for name, count in link["errors"].items():
                    print(f"\t Link {number}: {name}: {count}")
            elif link["active"]:
                print(f"\t Link {number}: {gpu['nvlink_gb_s']} GB/s")
            else:
                print(f"\t Link {number}: <inactive>")
    return 0


def topology(state):
    found = hardware.gpus(state)
    names = [f"GPU{index}" for index in range(len(found))]
    # Underlined, whether a terminal reads it or not.
    print("\t\033[4m" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m")
    for index, gpu in enumerate(found):
        links = sum(link["active"] for link in gpu["nvlinks"])
        cells = [" X " if other == index else f"NV{links}" for other in range(len(found))]
        print(f"GPU{index}\t" + "\t".join(cells) + f"\t0-55\t{gpu['numa_node']}\t\tN/A")
    print(LEGEND, end="")
    return 0


def change(state, chosen, options):
    """Settings; True when there was one. Those of ECC are kept by the GPU, the others by the driver."""
    done = False
    for index in chosen:
        gpu = hardware.gpus(state)[index]
        bus = smi_fields.pci_id(gpu)
        mode = options.get("-pm", options.get("--persistence-mode"))
        if mode is not None:
            word = "Enabled" if mode in ("1", "ENABLED") else "Disabled"
            hardware.change_setting(f"persistence_{gpu['minor']}", word == "Enabled")
            print(f"{word} persistence mode for GPU {bus}.")
            done = True
        ecc = options.get("-e", options.get("--ecc-config"))
        if ecc is not None:
            with hardware.changing() as found:
                hardware.gpus(found)[index]["ecc"]["mode_next"] = "Enabled" if ecc == "1" else "Disabled"
            print(f"ECC support is changed for GPU {bus}. Reboot required.")
            done = True
        limit = options.get("-pl", options.get("--power-limit"))
        if limit is not None:
            hardware.change_setting(f"power_limit_{gpu['minor']}", float(limit))
            print(f"Power limit for GPU {bus} was set to {float(limit):.2f} W.")
            done = True
        compute = options.get("-c", options.get("--compute-mode"))
        if compute is not None:
            word = {"0": "Default", "1": "Exclusive_Thread", "2": "Prohibited", "3": "Exclusive_Process"}
            hardware.change_setting(f"compute_mode_{gpu['minor']}", word.get(compute, compute.title()))
            print(f"Set compute mode to {word.get(compute, compute)} for GPU {bus}.")
            done = True
        if "-mig" in options or "--multi-instance-gpu" in options:
            smi_mig.set_mode(gpu, bus, options.get("-mig", options.get("--multi-instance-gpu")))
            done = True
        if "-lgc" in options or "-rgc" in options or "-r" in options or "--gpu-reset" in options:
            print(f"All done for GPU {bus}.")
            done = True
    if "-mig" in options:
        print("All done.")
    return done


def table(state, chosen, driver):
    bar = "+" + "-" * 89 + "+"
    print(time.strftime("%a %b %e %H:%M:%S %Y"))
    print(bar)
    print(f"| NVIDIA-SMI {driver:<21} Driver Version: {driver:<14} CUDA Version: {cuda(driver):<8} |")
    print(bar)
    for index in chosen:
        gpu = hardware.gpus(state)[index]
        if gpu["lost"]:
            fail(15, LOST.format(index=index, bus=smi_fields.pci_id(gpu)))
        on = "On" if smi_fields.persistent(gpu) else "Off"
        print(f"| {index:>3}  {gpu['name']:<27} {on:>3}  |   {smi_fields.pci_id(gpu)} Off | {'0':>20} |")
    print(bar)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
