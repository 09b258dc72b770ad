"""docs/reference/tool_formats.md: which output of which tool was compared with a genuine capture.

A capture counts where a test reads it (tests/captures.py). Add it to `FORMATS` together with the test.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from tests.captures import H100, H200

_HEADER = """# Formats of tools

Which output of hardware tools gpufleet reads, and with which captures from real hardware the parser is
compared. The captures are the files of `tests/captured` (`h100-vm_...`, `h200-vm_...`) and of
`../shared/captures`; an INDEX.md in each names source, hardware and version. What is not compared follows the
vendor's documentation or source code; an output that it misreads is a defect: report it with the output.

The racks in tests print these formats as well (`tests/rack/kit/hardware`).

This page is written by `make docs`; a test keeps it current.
"""


class ToolFormat(NamedTuple):
    """One output of one tool. `read_by` is a path below the repository's root.

    `captures` are genuine captures that a test compares the reader with; `not_compared` says what no genuine
    capture covers, "" for nothing.
    """

    output: str
    read_by: str
    captures: tuple[str, ...] = ()
    not_compared: str = ""


_HEALTH = "ansible/roles/health_check/files/health"
_UTILS = "ansible/plugins/module_utils"
_MODULES = "ansible/plugins/modules"
_KIT = "tests/rack/kit/hardware"


def _own(*files: str) -> tuple[str, ...]:
    """Captures of the checkout: of the H100 and of the H200."""
    return tuple(f"{folder}/{file}" for file in files for folder in (H100, H200))


# Sections in the order of the page.
FORMATS: dict[str, tuple[ToolFormat, ...]] = {
    "GPUs": (
        ToolFormat(
            "`nvidia-smi --query-gpu`",
            f"{_HEALTH}/gpus.py",
            (
                "nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt",
                "nvidia-smi/multi_h100-mig_590.48.01.txt",
                "nvidia-smi/table_v100_inforom-corrupt_460.txt",
                *_own("query-health.csv"),
            ),
            "GPUs with faults, but for a corrupt InfoROM; other drivers",
        ),
        ToolFormat(
            "`nvidia-smi --query-remapped-rows`",
            f"{_HEALTH}/gpus.py",
            _own("remapped-rows.csv"),
            "GPUs with remapped rows",
        ),
        ToolFormat(
            "`nvidia-smi mig -lgip`, `-lgi`, `-lci`",
            f"{_UTILS}/mig.py",
            _own("mig-lgip.txt", "mig-lgi.txt", "mig-lci.txt"),
            "tables of instances",
        ),
        ToolFormat(
            "`nvidia-smi --query-gpu=mig.mode...`",
            f"{_UTILS}/mig.py",
            (
                "nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt",
                "nvidia-smi/multi_h100-mig_590.48.01.txt",
                *_own("query-mig.csv"),
            ),
            "GPUs before Hopper",
        ),
        ToolFormat(
            "`nvidia-smi --query-gpu=power...`",
            f"{_MODULES}/power_cap.py",
            (
                "nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt",
                "nvidia-smi/multi_h100-mig_590.48.01.txt",
                *_own("query-power_cap.csv"),
            ),
            "other GPUs",
        ),
        ToolFormat(
            "`dcgmi health -c -j`",
            f"{_HEALTH}/dcgm.py",
            (),
            "everything: follows the source code of DCGM 4.6.0 (dcgmi/Health.cpp)",
        ),
        ToolFormat(
            "`dcgmi diag -j`",
            f"{_HEALTH}/dcgm.py",
            (
                "dcgm/diag_gb10-level1_dcgm4.2.3.json",
                "dcgm/diag_gb10-level2-partial-skip_dcgm4.2.3.json",
            ),
            "failures of hardware; DCGM 3",
        ),
    ),
    "NVLink and NVSwitch": (
        ToolFormat(
            "`nvidia-smi nvlink --status`",
            f"{_HEALTH}/nvlink.py",
            (
                "nvidia-smi/nvlink-s_a100_8gpu.txt",
                "nvidia-smi/nvlink-s_v100_single-links-inactive.txt",
                "nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt",
                "nvidia-smi/multi_h100-mig_590.48.01.txt",
                *_own("nvlink-s.txt"),
            ),
            "a GPU without any active link, B200 and B300: as printed in public threads",
        ),
        ToolFormat(
            "`nvidia-smi nvlink --errorcounters`",
            f"{_HEALTH}/nvlink.py",
            (),
            "everything: NVLink 5 by the names that driver 595.91.07 prints on p6-b300.48xlarge",
        ),
    ),
    "InfiniBand and Ethernet": (
        ToolFormat(
            "`/sys/class/infiniband`",
            f"{_HEALTH}/ports.py",
            ("infiniband/sysfs_class-infiniband_h100.ttar",),
            "vital product data, PCIe links and network interfaces; B200 and B300; RoCE",
        ),
        ToolFormat(
            "`ibstat`",
            f"{_HEALTH}/adapter_log.py",
            ("infiniband/ibstat_a100_ibpanic_rc255.txt",),
            "other errors",
        ),
        ToolFormat(
            "`ibnetdiscover --ports`",
            "gpufleet/racks/verify/switches.py",
            ("infiniband/ibnetdiscover-p_edr.txt",),
            "other speeds than EDR",
        ),
        ToolFormat(
            "`ibswinfo`",
            "gpufleet/racks/verify/switches.py",
            ("infiniband/ibswinfo_3.txt", "infiniband/ibswinfo_fan-error.txt"),
            "NDR and XDR switches",
        ),
        ToolFormat("`mlxconfig -d ... query`", f"{_UTILS}/rdma_hardware.py", (), "everything"),
    ),
    "Logs": (
        ToolFormat(
            "Xids in the kernel log",
            f"{_HEALTH}/xid.py",
            (
                "kernel/dmesg_xid48-63-94_dbe-remap.log",
                "kernel/dmesg_xid119_gsp-timeout.log",
                "kernel/dmesg_iso_xid13-43_oom.log",
                "kernel/dmesg_iso_xid13-storm.log",
                "kernel/kmsg_boot.log",
                "kernel/dmesg_short-iso.log",
                "kernel/journald_azure_gpu-vm.log",
            ),
            "Xids 144 to 150, 154 and those of MIG instances: as printed in public threads",
        ),
        ToolFormat(
            "SXids in the kernel log", f"{_HEALTH}/sxid.py", (), "everything: as printed in public threads"
        ),
        ToolFormat(
            "`/var/log/fabricmanager.log`",
            f"{_HEALTH}/sxid.py",
            ("kernel/fabricmanager.log",),
            "fatal SXids",
        ),
        ToolFormat(
            "nvidia-peermem and mlx5 in the kernel log",
            f"{_HEALTH}/kernel_faults.py",
            ("kernel/kmsg_nvidia-peermem.log",),
            "mlx5: as printed in public threads",
        ),
        ToolFormat(
            "PCIe bandwidth of adapters in the kernel log",
            f"{_HEALTH}/adapter_log.py",
            (),
            "everything: as the kernel's pcie_print_link_status prints it",
        ),
        ToolFormat(
            "lost carriers in the journal of systemd-networkd",
            f"{_HEALTH}/adapter_log.py",
            ("kernel/syslog_ib-link-flap.log", "kernel/syslog_no-flap.log"),
            "other network managers",
        ),
    ),
    "Host": (
        ToolFormat("`chronyc -c tracking`", f"{_HEALTH}/system.py", (), "everything"),
        ToolFormat(
            "Redfish: health of parts",
            f"{_UTILS}/redfish_health.py",
            (
                "redfish/dell_power.json",
                "redfish/hpe_Chassis_1_Power.json",
                "redfish/supermicro_x10_Chassis_1_Power.json",
                "redfish/supermicro-gb300_chassis0-fans-power-thermal.json",
                "redfish/supermicro-gb300_gpu-processor-and-nvlink.json",
                "redfish/supermicro-gb300_gpu0-sensors-environment.json",
            ),
            "parts with faults: a leak only with a capture that may be made",
        ),
        ToolFormat(
            "Redfish: identity, firmware, power, boot order, BIOS",
            f"{_UTILS}/redfish.py",
            (),
            "everything: compared with OpenStack's emulator",
        ),
    ),
    "Slurm": (ToolFormat("`scontrol --oneliner show node`", f"{_HEALTH}/slurm.py", (), "everything"),),
    "Printed by the racks in tests": (
        ToolFormat(
            "`nvidia-smi -q -x`",
            f"{_KIT}/smi_xml.py",
            (
                "nvidia-smi/q-x_a100-sxm4-40gb_570.148.08.xml",
                "nvidia-smi/q-x_b200_580.105.08.xml",
                "nvidia-smi/q-x_gb200_580.173.02.xml",
                *_own("q-x.xml"),
            ),
            "values; elements that the rack leaves out",
        ),
        ToolFormat(
            "`nvidia-smi --query-gpu`",
            f"{_KIT}/smi_fields.py",
            _own("fields.txt", "query-all.csv"),
            "GPUs with faults, other drivers",
        ),
        ToolFormat(
            "`nvidia-smi mig`",
            f"{_KIT}/smi_mig.py",
            _own("mig-lgip.txt", "mig-lgipp.txt", "mig-lgi.txt", "mig-lci.txt"),
            "instances; GPUs but H100 and H200",
        ),
        ToolFormat(
            "other output of nvidia-smi",
            f"{_KIT}/nvidia_smi.py",
            (
                "nvidia-smi/table_v100_inforom-corrupt_460.txt",
                *_own("topo-m.txt", "retired-pages.csv", "compute-apps.csv", "query-no-gpu.txt"),
            ),
            "the table, settings, several GPUs",
        ),
        ToolFormat(
            "`dcgmi diag -j`",
            f"{_KIT}/dcgmi.py",
            ("dcgm/diag_gb10-level2-partial-skip_dcgm4.2.3.json",),
            "other output of dcgmi",
        ),
        ToolFormat("dmesg", f"{_KIT}/kernel_log.py", (), "everything"),
        ToolFormat("ibstat, perfquery, mlxconfig and others", f"{_KIT}/adapters.py", (), "everything"),
        ToolFormat("`/sys`", f"{_KIT}/sysfs.py", (), "everything"),
        ToolFormat("Fabric Manager, DCGM exporter", f"{_KIT}/services.py", (), "everything"),
        ToolFormat("mdadm, nvme", f"{_KIT}/mdadm.py", (), "everything"),
        ToolFormat("modprobe, lsmod, modinfo", f"{_KIT}/modules.py", (), "everything"),
    ),
}


def reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEADER]
    for title, formats in FORMATS.items():
        parts += [f"## {title}\n", "| output | read by | compared with | not compared |\n|---|---|---|---|"]
        parts += [_row(item) for item in formats]
        parts.append("")
    return "\n".join(parts)


def _row(item: ToolFormat) -> str:
    captures = ", ".join(f"`{name}`" for name in item.captures) or "-"
    return f"| {item.output} | `{item.read_by}` | {captures} | {item.not_compared or '-'} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
