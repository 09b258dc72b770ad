"""`nvidia-smi -q -x`: the log as XML, with elements of nvsmi_device_v13."""

import time

import smi_fields
import state as hardware


def document(state, indexes, cuda):
    """The whole log for the GPUs of the given indexes; those that are lost are left out."""
    found = hardware.gpus(state)
    lines = ['<?xml version="1.0" ?>', '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">']
    root = {
        "timestamp": time.strftime("%a %b %e %H:%M:%S %Y"),
        "driver_version": hardware.loaded_module("nvidia"),
        "cuda_version": cuda,
        "attached_gpus": str(len(found)),
    }
    lines.append("<nvidia_smi_log>")
    lines += _elements(root, 1)
    for index in indexes:
        gpu = found[index]
        lines.append(f'\t<gpu id="{smi_fields.pci_id(gpu)}">')
        lines += _elements(_gpu(gpu, index, state), 2)
        lines.append("\t</gpu>")
    lines.append("</nvidia_smi_log>")
    return "\n".join(lines) + "\n"


def _elements(tree, depth):
    lines = []
    for name, value in tree.items():
        indent = "\t" * depth
        if isinstance(value, dict):
            lines += [f"{indent}<{name}>", *_elements(value, depth + 1), f"{indent}</{name}>"]
        else:
            lines.append(f"{indent}<{name}>{_escaped(str(value))}</{name}>")
    return lines


def _escaped(text):
    # xml.sax.saxutils has this too, and takes longer to load than all the rest.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _gpu(gpu, index, state):
    known = smi_fields.fields(gpu, index, state)

    def of(name):
        value, unit = known[name]
        return value.strip("[]") if value.startswith("[") or not unit else f"{value} {unit}"

    return {
        "product_name": of("name"),
        "product_brand": "NVIDIA",
        "product_architecture": gpu["architecture"],
        "display_mode": of("display_mode"),
        "display_active": of("display_active"),
        "persistence_mode": of("persistence_mode"),
        "mig_mode": {"current_mig": of("mig.mode.current"), "pending_mig": of("mig.mode.pending")},
        "serial": of("serial"),
        "uuid": of("uuid"),
        "minor_number": gpu["minor"],
        "vbios_version": of("vbios_version"),
        "gpu_recovery_action": of("gpu_recovery_action"),
        "pci": {
            "pci_bus": of("pci.bus")[2:],
            "pci_device": of("pci.device")[2:],
            "pci_domain": of("pci.domain")[2:],
            "pci_device_id": of("pci.device_id")[2:],
            "pci_bus_id": of("pci.bus_id"),
            "pci_sub_system_id": of("pci.sub_device_id")[2:],
            "pci_gpu_link_info": {
                "pcie_gen": {
                    "max_link_gen": of("pcie.link.gen.max"),
                    "current_link_gen": of("pcie.link.gen.current"),
                    "device_current_link_gen": of("pcie.link.gen.current"),
                    "max_device_link_gen": of("pcie.link.gen.gpumax"),
                    "max_host_link_gen": of("pcie.link.gen.hostmax"),
                },
                "link_widths": {
                    "max_link_width": of("pcie.link.width.max") + "x",
                    "current_link_width": of("pcie.link.width.current") + "x",
                },
            },
            "replay_counter": gpu["pcie"]["replays"],
            "replay_rollover_counter": "0",
        },
        "performance_state": of("pstate"),
        "clocks_event_reasons": {
            f"clocks_event_reason_{name}": of(f"clocks_event_reasons.{name}") for name in smi_fields.REASONS
        },
        "fb_memory_usage": {
            "total": of("memory.total"),
            "reserved": of("memory.reserved"),
            "used": of("memory.used"),
            "free": of("memory.free"),
        },
        "compute_mode": of("compute_mode"),
        "utilization": {"gpu_util": of("utilization.gpu"), "memory_util": of("utilization.memory")},
        "ecc_mode": {"current_ecc": of("ecc.mode.current"), "pending_ecc": of("ecc.mode.pending")},
        "ecc_errors": {when: _ecc(gpu["ecc"][when], when) for when in ("volatile", "aggregate")},
        "retired_pages": {
            "multiple_single_bit_retirement": {"retired_count": of("retired_pages.single_bit_ecc.count")},
            "double_bit_retirement": {"retired_count": of("retired_pages.double_bit.count")},
            "pending_blacklist": of("retired_pages.pending"),
            "pending_retirement": of("retired_pages.pending"),
        },
        "remapped_rows": {
            "remapped_row_corr": of("remapped_rows.correctable"),
            "remapped_row_unc": of("remapped_rows.uncorrectable"),
            "remapped_row_pending": of("remapped_rows.pending"),
            "remapped_row_failure": of("remapped_rows.failure"),
        },
        "temperature": {
            "gpu_temp": of("temperature.gpu") + " C",
            "gpu_temp_tlimit": of("temperature.gpu.tlimit") + " C",
            "memory_temp": of("temperature.memory") + " C",
        },
        "gpu_power_readings": {
            "power_state": of("pstate"),
            "average_power_draw": of("power.draw.average"),
            "instant_power_draw": of("power.draw.instant"),
            "current_power_limit": of("power.limit"),
            "default_power_limit": of("power.default_limit"),
            "min_power_limit": of("power.min_limit"),
            "max_power_limit": of("power.max_limit"),
        },
        "clocks": _clocks(of, "clocks.current."),
        "max_clocks": _clocks(of, "clocks.max.", video=False),
        "fabric": {"state": of("fabric.state"), "status": of("fabric.status")},
        "processes": "",
    }


def _ecc(counts, when):
    more = {"sram_threshold_exceeded": "No"} if when == "aggregate" else {}
    return {
        "sram_correctable": counts["sram_corrected"],
        "sram_uncorrectable_parity": 0,
        "sram_uncorrectable_secded": counts["sram_uncorrected"],
        "dram_correctable": counts["dram_corrected"],
        "dram_uncorrectable": counts["dram_uncorrected"],
    } | more


def _clocks(of, prefix, video=True):
    names = {"graphics_clock": "graphics", "sm_clock": "sm", "mem_clock": "memory"}
    if video:
        names["video_clock"] = "video"
    return {element: of(prefix + name) for element, name in names.items()}
