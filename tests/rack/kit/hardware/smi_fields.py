"""What `nvidia-smi --query-gpu` knows of a GPU: field name -> value and unit, as the tool prints them."""

import smi_mig
import state as hardware

# Bits and names of NVML's clocks event reasons, in the order of `nvidia-smi -q`.
REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
}
NOT_SUPPORTED = "[N/A]"
UNITS = {"MiB", "W", "MHz", "%", "us"}


def fields(gpu, index, state):
    """All fields of one GPU as (value, unit)."""
    values = _identity(gpu, index, state) | _pcie(gpu) | _load(gpu)
    values |= _clocks(gpu) | _reasons(gpu) | _ecc(gpu["ecc"]) | _memory_repairs(gpu) | _power(gpu, state)
    return {name: value if isinstance(value, tuple) else (str(value), "") for name, value in values.items()}


def _identity(gpu, index, state):
    bus = pci_id(gpu)
    domain, number, rest = bus.split(":")
    device = rest.partition(".")[0]
    mig, pending = smi_mig.modes(gpu)
    return {
        "timestamp": "2026/01/01 00:00:00.000",
        "driver_version": hardware.loaded_module("nvidia") or "",
        "vgpu_driver_capability.heterogenous_multivGPU": NOT_SUPPORTED,
        "count": len(hardware.gpus(state)),
        "name": gpu["name"],
        "gpu_name": gpu["name"],
        "serial": gpu["serial"],
        "gpu_serial": gpu["serial"],
        "uuid": gpu["uuid"],
        "gpu_uuid": gpu["uuid"],
        "index": index,
        "vbios_version": gpu["vbios"],
        "compute_cap": gpu["compute_capability"],
        "display_active": "Disabled",
        "display_mode": "[Requested functionality has been deprecated]",
        "display_attached": "No",
        "persistence_mode": "Enabled" if persistent(gpu) else "Disabled",
        "accounting.mode": "Disabled",
        "accounting.buffer_size": "4000",
        "pci.bus_id": bus,
        "gpu_bus_id": bus,
        "pci.domain": f"0x{domain[-4:]}",
        "pci.bus": f"0x{number}",
        "pci.device": f"0x{device}",
        "pci.device_id": f"0x{gpu['device_id'].upper()}10DE",
        "pci.sub_device_id": "0x16C110DE",
        "mig.mode.current": mig,
        "mig.mode.pending": pending,
        "compute_mode": hardware.setting(f"compute_mode_{gpu['minor']}", "Default"),
        "fabric.state": fabric_state(state)[0],
        "fabric.status": fabric_state(state)[1],
        "gpu_recovery_action": gpu["recovery_action"],
    }


def persistent(gpu):
    return bool(hardware.setting("persistenced") or hardware.setting(f"persistence_{gpu['minor']}"))


def fabric_state(state):
    """What Fabric Manager has made of the GPU's place in the NVLink fabric."""
    if not state["nvswitches"]:
        return "N/A", "N/A"
    return ("Completed", "Success") if hardware.setting("fabric_manager") else ("In Progress", "N/A")


def pci_id(gpu):
    """The bus address as NVML writes it: eight digits of domain, upper case."""
    return f"0000{gpu['bus_id']}".upper()


def _pcie(gpu):
    pcie = gpu["pcie"]
    values = {}
    for kind in ("link", "gpu"):
        values[f"pcie.{'link.gen.gpucurrent' if kind == 'gpu' else 'link.gen.current'}"] = pcie["gen"]
    return values | {
        "pcie.link.gen.max": pcie["gen_max"],
        "pcie.link.gen.gpumax": pcie["gen_max"],
        "pcie.link.gen.hostmax": pcie["gen_max"],
        "pcie.link.width.current": pcie["width"],
        "pcie.link.width.max": pcie["width_max"],
    }


def _load(gpu):
    total = gpu["memory_mib"]
    used = gpu["memory_used_mib"]
    return {
        "fan.speed": (NOT_SUPPORTED, "%"),
        "pstate": "P0",
        "memory.total": (str(total), "MiB"),
        "memory.reserved": ("514", "MiB"),
        "memory.used": (str(used), "MiB"),
        "memory.free": (str(total - used - 514), "MiB"),
        "utilization.gpu": (str(gpu["utilization"]), "%"),
        "utilization.memory": ("0", "%"),
        "temperature.gpu": gpu["temperature"],
        "temperature.memory": gpu["memory_temperature"],
        "temperature.gpu.tlimit": max(0, 87 - gpu["temperature"]),
    }


def _clocks(gpu):
    """Clocks by their long names and by the short ones that the help lists as well."""
    values = {}
    for short, name in (("gr", "graphics"), ("sm", "sm"), ("mem", "memory"), ("video", "video")):
        now, most = gpu["clocks"][name], gpu["clocks_max"][name]
        values[f"clocks.{short}"] = values[f"clocks.current.{name}"] = (str(now), "MHz")
        if name != "video":
            values[f"clocks.max.{short}"] = values[f"clocks.max.{name}"] = (str(most), "MHz")
        if name in ("graphics", "memory"):
            values[f"clocks.applications.{short}"] = (str(most), "MHz")
            values[f"clocks.applications.{name}"] = (str(most), "MHz")
    return values


def _reasons(gpu):
    values = {}
    bits = sum(REASONS[name] for name in gpu["throttle"])
    for prefix in ("clocks_event_reasons", "clocks_throttle_reasons"):
        values[f"{prefix}.supported"] = "0x00000000000001FF"
        values[f"{prefix}.active"] = f"0x{bits:016X}"
        for name in REASONS:
            values[f"{prefix}.{name}"] = "Active" if name in gpu["throttle"] else "Not Active"
    return values


def _ecc(ecc):
    values = {"ecc.mode.current": ecc["mode"], "ecc.mode.pending": ecc["mode_next"]}
    for kind in ("corrected", "uncorrected"):
        for when in ("volatile", "aggregate"):
            counts = ecc[when]
            memory, sram = counts[f"dram_{kind}"], counts[f"sram_{kind}"]
            prefix = f"ecc.errors.{kind}.{when}"
            values |= {f"{prefix}.dram": memory, f"{prefix}.device_memory": memory, f"{prefix}.sram": sram}
            values |= {
                f"{prefix}.{part}": NOT_SUPPORTED for part in ("register_file", "l1_cache", "l2_cache")
            }
            values[f"{prefix}.total"] = memory + sram
    values["ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"] = "No"
    return (
        values
        if ecc["mode"] == "Enabled"
        else dict.fromkeys(values, NOT_SUPPORTED)
        | {
            "ecc.mode.current": ecc["mode"],
            "ecc.mode.pending": ecc["mode_next"],
        }
    )


def _memory_repairs(gpu):
    retired, rows = gpu["retired_pages"], gpu["remapped_rows"]
    # Pages are retired on GPUs before Ampere; later ones remap rows and say N/A here.
    old = gpu["retires_pages"]
    return {
        "retired_pages.single_bit_ecc.count": retired["single_bit"] if old else NOT_SUPPORTED,
        "retired_pages.double_bit.count": retired["double_bit"] if old else NOT_SUPPORTED,
        "retired_pages.pending": ("Yes" if retired["pending"] else "No") if old else NOT_SUPPORTED,
        "remapped_rows.correctable": rows["correctable"],
        "remapped_rows.uncorrectable": rows["uncorrectable"],
        "remapped_rows.pending": "Yes" if rows["pending"] else "No",
        "remapped_rows.failure": "Yes" if rows["failure"] else "No",
        "remapped_rows.histogram.max": rows["banks_full"],
    }


def _power(gpu, _state):
    limit = hardware.setting(f"power_limit_{gpu['minor']}", gpu["power"]["limit"])
    return {
        "power.management": "Enabled",
        "power.draw": (f"{gpu['power']['draw']:.2f}", "W"),
        "power.draw.average": (f"{gpu['power']['draw']:.2f}", "W"),
        "power.draw.instant": (f"{gpu['power']['draw']:.2f}", "W"),
        "power.limit": (f"{limit:.2f}", "W"),
        "enforced.power.limit": (f"{limit:.2f}", "W"),
        "power.default_limit": (f"{gpu['power']['limit']:.2f}", "W"),
        "power.min_limit": ("200.00", "W"),
        "power.max_limit": (f"{gpu['power']['limit']:.2f}", "W"),
    }
