"""NVIDIA's catalogues of Xids and SXids: what each one means, and the action that NVIDIA gives for it.

Sources: NVIDIA, Analyzing Xid Errors with the Xid Catalog (docs.nvidia.com/deploy/xid-errors, its
spreadsheet as of 2025-10: Ampere and later); NVIDIA, Fabric Manager User Guide, DU-09883-001_v1.3, appendix D
(SXids of NVSwitches; Hopper and earlier). Both by their copies in leptonai/gpud.
"""

from __future__ import annotations

import re

ISOLATE, REBOOT, RESET, MONITOR, UNKNOWN = "ISOLATE", "REBOOT", "RESET", "MONITOR", "UNKNOWN"
# Immediate actions after which jobs may not run; all others leave the GPU usable.
ACTION_OF_BUCKET = {
    "CHECK_MECHANICALS": ISOLATE,
    "RESTART_BM": REBOOT,
    "RESTART_VM": REBOOT,
    "RESET_GPU": RESET,
    "WORKFLOW_XID_48": RESET,
    "WORKFLOW_NVLINK_ERR": RESET,
}
# `NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 ...)`
NVLINK5 = re.compile(
    r"\b([A-Z][A-Z0-9_]*)(?:/[A-Z0-9_]+)? (Fatal|Nonfatal) XC\d i\d+ Link -?\d+ "
    r"\((0x[0-9a-fA-F]+) (0x[0-9a-fA-F]+)"
)

# Xid -> (resolution bucket of the immediate action, description). An empty bucket: NVIDIA gives no action.
XIDS: dict[int, tuple[str, str]] = {
    8: ("RESTART_APP", "GPU stopped processing"),
    11: ("RESTART_APP", "Invalid or corrupted push buffer stream"),
    13: ("RESTART_APP", "Graphics Engine Exception"),
    25: ("RESTART_APP", "Invalid or illegal push buffer stream"),
    31: ("RESTART_APP", "GPU memory page fault"),
    32: ("RESTART_APP", "Invalid or corrupted push buffer stream"),
    37: ("IGNORE", "Driver firmware error"),
    38: ("IGNORE", "Driver firmware error"),
    39: ("RESTART_APP", "Copy Engine Exception"),
    40: ("RESTART_APP", "Copy Engine Exception"),
    41: ("RESTART_APP", "Copy Engine Exception"),
    43: ("IGNORE", "GPU stopped processing"),
    44: ("IGNORE", "Graphics Engine fault during context switch"),
    45: ("WORKFLOW_XID_45", "Preemptive cleanup, due to previous errors"),
    46: ("RESET_GPU", "GPU stopped processing"),
    48: ("WORKFLOW_XID_48", "Double Bit ECC Error"),
    54: ("CHECK_MECHANICALS", "Auxiliary power is not connected to the GPU board"),
    60: ("RESTART_APP", "Video processor exception"),
    62: ("RESET_GPU", "Internal micro-controller halt (newer drivers)"),
    63: ("IGNORE", "GPU memory remapping event"),
    64: ("RESET_GPU", "GPU memory remapping failure"),
    66: ("IGNORE", "Illegal access by driver"),
    67: ("IGNORE", "Illegal access by driver"),
    68: ("RESTART_APP", "NVDEC0 Exception"),
    69: ("RESTART_APP", "Graphics Engine class error"),
    70: ("RESTART_APP", "CE3: Unknown Error"),
    71: ("RESTART_APP", "CE4: Unknown Error"),
    72: ("RESTART_APP", "CE5: Unknown Error"),
    74: ("WORKFLOW_NVLINK_ERR", "NVLINK Error"),
    75: ("RESTART_APP", "CE6: Unknown Error"),
    76: ("RESTART_APP", "CE7: Unknown Error"),
    77: ("RESTART_APP", "CE8: Unknown Error"),
    78: ("UPDATE_SWFW", "vGPU Start Error"),
    79: ("RESTART_BM", "GPU has fallen off the bus"),
    80: ("RESTART_APP", "Corrupted data sent to GPU"),
    82: ("RESTART_APP", "NVJPG0 Error"),
    83: ("RESTART_APP", "NVDEC1 Error"),
    84: ("RESTART_APP", "NVDEC2 Error"),
    85: ("RESTART_APP", "CE9: Unknown Error"),
    86: ("RESTART_APP", "OFA Exception"),
    88: ("RESTART_APP", "NVDEC3 Error"),
    89: ("RESTART_APP", "NVDEC4 Error"),
    92: ("IGNORE", "High single-bit ECC error rate"),
    93: ("IGNORE", "Non-fatal violation of provisioned InfoROM wear limit"),
    94: ("RESTART_APP", "Contained memory error"),
    95: ("RESET_GPU", "Uncontained memory error"),
    96: ("RESTART_APP", "NVDEC5 Error"),
    97: ("RESTART_APP", "NVDEC6 Error"),
    98: ("RESTART_APP", "NVDEC7 Error"),
    99: ("RESTART_APP", "NVJPG1 Error"),
    100: ("RESTART_APP", "NVJPG2 Error"),
    101: ("RESTART_APP", "NVJPG3 Error"),
    102: ("RESTART_APP", "NVJPG4 Error"),
    103: ("RESTART_APP", "NVJPG5 Error"),
    104: ("RESTART_APP", "NVJPG6 Error"),
    105: ("RESTART_APP", "NVJPG7 Error"),
    106: ("IGNORE", "SMBPBI Test Message"),
    107: ("IGNORE", "SMBPBI Test Message Silent"),
    109: ("RESET_GPU", "Context Switch Timeout Error"),
    110: ("RESET_GPU", "Security Fault Error"),
    119: ("RESET_GPU", "GSP RPC Timeout"),
    120: ("RESET_GPU", "GSP Error"),
    121: ("IGNORE", "C2C Error"),
    126: ("RESTART_APP", "CE10: Unknown Error"),
    127: ("RESTART_APP", "CE11: Unknown Error"),
    128: ("RESTART_APP", "CE12: Unknown Error"),
    129: ("RESTART_APP", "CE13: Unknown Error"),
    130: ("RESTART_APP", "CE14: Unknown Error"),
    131: ("RESTART_APP", "CE15: Unknown Error"),
    132: ("RESTART_APP", "CE16: Unknown Error"),
    133: ("RESTART_APP", "CE17: Unknown Error"),
    134: ("RESTART_APP", "CE18: Unknown Error"),
    135: ("RESTART_APP", "CE19: Unknown Error"),
    136: ("RESET_GPU", "Link Training Failed"),
    137: ("IGNORE", "NVLink Privilege Error"),
    139: ("RESTART_APP", "OFA1 Error"),
    140: ("RESET_GPU", "ECC Unrecovered Error"),
    141: ("IGNORE", "CUDA Fast Path Error"),
    142: ("CONTACT_SUPPORT", "NVENC3 Error"),
    143: ("RESET_GPU", "GPU Initialization Error"),
    144: ("WORKFLOW_NVLINK5_ERR", "NVLINK: SAW Error"),
    145: ("WORKFLOW_NVLINK5_ERR", "NVLINK: RLW Error"),
    146: ("WORKFLOW_NVLINK5_ERR", "NVLINK: TLW Error"),
    147: ("WORKFLOW_NVLINK5_ERR", "NVLINK: TREX Error"),
    148: ("WORKFLOW_NVLINK5_ERR", "NVLINK: NVLPW_CTRL Error"),
    149: ("WORKFLOW_NVLINK5_ERR", "NVLINK: NETIR Error"),
    150: ("WORKFLOW_NVLINK5_ERR", "NVLINK: MSE Error"),
    151: ("RESTART_VM", "Key rotation Error"),
    152: ("IGNORE", "DLA SMMU Error"),
    153: ("IGNORE", "DLA timeout Error"),
    154: ("XID_154", "GPU Recovery Action Changed"),
    155: ("RESET_GPU", "NVLINK: SW Defined Error"),
    156: ("RESET_GPU", "Resource Retirement Event"),
    157: ("IGNORE", "Resource Retirement Failure"),
    158: ("RESET_GPU", "GPU Fatal Timeout"),
    159: ("CHECK_UVM", "CHI Non-Data Error"),
    160: ("IGNORE", "Channel Retirement Event"),
    161: ("IGNORE", "Channel Retirement Failure"),
    162: ("", "Power Smoothing HW Circuitry capability reengaged"),
    163: ("", "Power Smoothing HW Circuitry capability disengaged"),
    164: ("", "Power Smoothing HW Circuitry low lifetime reached"),
    165: ("", "Power Smoothing HW Circuitry lifetime exhausted"),
    166: ("", "NVLink traffic before encryption was set up"),
    167: ("", "PCIe fatal timeout"),
    168: ("", "Reduced GPU memory capacity"),
    169: ("", "Internal micro-controller halt"),
    170: ("", "Interrupt seen in CC mode"),
    171: ("", "Uncorrectable DRAM error"),
    172: ("", "Uncorrectable SRAM error"),
}
# Numbers that Ampere and later GPUs do not use; NVIDIA's action is to contact support.
UNUSED = frozenset(
    {
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        9,
        10,
        12,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        26,
        27,
        28,
        29,
        30,
        33,
        34,
        35,
        36,
        42,
        47,
        49,
        50,
        51,
        52,
        53,
        55,
        56,
        57,
        58,
        59,
        61,
        65,
        73,
        81,
        87,
        90,
        91,
        108,
        111,
        112,
        113,
        114,
        115,
        116,
        117,
        118,
        122,
        123,
        124,
        125,
        138,
    }
)

# Xids 144 to 150 (WORKFLOW_NVLINK5_ERR) have more than a number: `RLW_REMAP Fatal XC0 i0 Link 08 (0x.. 0x..)`
# The first register is intrInfo, the second errorStatus. Units are named in two ways: before and from driver
# R575 on. (Xid, unit) -> bits of errorStatus that ask for a reset of the GPU. Other bits ask for nothing
# unless the line is Fatal: some errors are promoted.
NVLINK5_RESET_BITS: dict[tuple[int, str], int] = {
    (144, "SAW_MVB"): 0x12,
    (145, "RLW_REMAP"): 0xC0,
    (145, "RLW_RSPCOL"): 0x2,
    (145, "RLW_SRC_TRACK"): 0x31,
    (145, "RLW_TAGSTATE"): 0x120002,
    (146, "TLW_CTRL"): 0x4,
    (146, "TLW_RX"): 0x4,
    (146, "TLW_RX_PIPE0"): 0x4,
    (146, "TLW_RX_PIPE1"): 0x4,
    (146, "TLW_TX"): 0x4,
    (146, "TLW_TX_PIPE0"): 0x4,
    (146, "TLW_TX_PIPE1"): 0x4,
}
# Link events of Xid 149 all ask for a reset, but for these reasons (intrInfo[25:20]).
NETIR_LINK_UNITS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN")
NETIR_HARMLESS_REASONS = (0x26, 0x28)

# SXids after which work goes on.
SXIDS_NON_FATAL: dict[int, str] = {
    11004: "Ingress invalid ACL",
    11012: "Single bit ECC errors",
    11021: "Single bit ECC errors",
    11022: "Single bit ECC errors",
    11023: "Single bit ECC errors",
    12021: "Single bit ECC errors",
    12023: "Single bit ECC errors",
    12028: "egress nonposted PRIV error",
    15008: "Single bit ECC errors",
    15011: "Single bit ECC errors",
    19049: "Single bit ECC errors",
    19055: "Single bit ECC errors",
    19057: "Single bit ECC errors",
    19059: "Single bit ECC errors",
    19062: "Single bit ECC errors",
    19065: "Single bit ECC errors",
    19068: "Single bit ECC errors",
    19071: "Single bit ECC errors",
    19084: "AN1 Heartbeat Timeout Error",
    20001: "TX Replay Error",
    20012: "Broken/inconsistent connection",
    22013: "Minion Link DLREQ interrupt",
    24001: "Single bit ECC errors",
    24002: "Single bit ECC errors",
    24003: "Single bit ECC errors",
}
# SXids that stop the traffic of a port; the GPU there logs Xid 74. A reset of GPUs and NVSwitches repairs it.
SXIDS_FATAL: dict[int, str] = {
    11001: "ingress invalid command",
    11009: "ingress invalid VCSet",
    11013: "ingress header DBE",
    11018: "ingress RID DBE",
    11019: "ingress RLAN DBE",
    11020: "ingress control parity",
    12001: "egress crossbar overflow",
    12002: "egress packet route",
    12022: "egress input ECC DBE error",
    12024: "egress output ECC DBE error",
    12025: "egress credit overflow",
    12026: "egress destination request ID error",
    12027: "egress destination response ID error",
    12030: "egress control parity error",
    12031: "egress credit parity error",
    12032: "egress flit type mismatch",
    14017: "TS ATO timeout",
    15001: "route buffer over/underflow",
    15006: "route transdone over/underflow",
    15009: "route GLT DBE",
    15010: "route parity",
    15012: "route incoming DBE",
    15013: "route credit parity",
    19047: "NCISOC HDR ECC DBE Error",
    19048: "NCISOC DAT ECC DBE Error",
    19054: "HDR RAM ECC DBE Error",
    19056: "DAT0 RAM ECC DBE Error",
    19058: "DAT1 RAM ECC DBE Error",
    19060: "CREQ RAM HDR ECC DBE Error",
    19061: "CREQ RAM DAT ECC DBE Error",
    19063: "Response RAM HDR ECC DBE Error",
    19064: "Response RAM DAT ECC DBE Error",
    19066: "COM RAM HDR ECC DBE Error",
    19067: "COM RAM DAT ECC DBE Error",
    19069: "RSP1 RAM HDR ECC DBE Error",
    19070: "RSP1 RAM DAT ECC DBE Error",
    20034: "LTSSM Fault Up",
    22012: "Minion Link NA interrupt",
    24004: "sourcetrack TCEN0 crubmstore DBE",
    24005: "sourcetrack TCEN0 TD crubmstore DBE",
    24006: "sourcetrack TCEN1 crubmstore DBE",
    24007: "sourcetrack timeout error",
}
# SXids that stop the whole fabric until the host is restarted.
SXIDS_ALWAYS_FATAL: dict[int, str] = {
    12020: "egress sequence ID error",
    22003: "Minion Halt",
    22011: "Minion exterror",
    23001: "ingress SRC-VC buffer overflow",
    23002: "ingress SRC-VC buffer underflow",
    23003: "egress DST-VC credit overflow",
    23004: "egress DST-VC credit underflow",
    23005: "ingress packet burst error",
    23006: "ingress packet sticky error",
    23007: "possible bubbles at ingress",
    23008: "ingress packet invalid dst error",
    23009: "ingress packet parity error",
    23010: "ingress SRC-VC buffer overflow",
    23011: "ingress SRC-VC buffer underflow",
    23012: "egress DST-VC credit overflow",
    23013: "egress DST-VC credit underflow",
    23014: "ingress packet burst error",
    23015: "ingress packet sticky error",
    23016: "possible bubbles at ingress",
    23017: "ingress credit parity error",
}
# Others, with the severity that their line says.
SXIDS_OTHER: dict[int, str] = {
    10001: "Host_priv_error",
    10002: "Host_priv_timeout",
    10003: "Host_unhandled_interrupt",
    10004: "Host_thermal_event_start",
    10005: "Host_thermal_event_end",
    20009: "RX Short Error Rate",
}


def action_of(number: int, text: str) -> str:
    """Return the action that NVIDIA's catalogue has for an Xid, UNKNOWN for one that it does not use."""
    if 144 <= number <= 150:
        return nvlink5_action(number, text)
    if number not in XIDS:
        return UNKNOWN
    return ACTION_OF_BUCKET.get(XIDS[number][0], MONITOR)


def nvlink5_action(number: int, text: str) -> str:
    """Return RESET or MONITOR for Xids 144 to 150, by NVIDIA's decode table or by the severity of the line.

    >>> nvlink5_action(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)")
    'RESET'
    """
    # A process that the line names may have such words in its name: the driver's own come last.
    found = NVLINK5.findall(text)
    if not found:
        return RESET if re.search(r"\bFatal\b", text) else MONITOR
    unit, severity, info, status = found[-1][0], found[-1][1], int(found[-1][2], 16), int(found[-1][3], 16)
    if unit in NETIR_LINK_UNITS:
        return MONITOR if (info >> 20) & 0x3F in NETIR_HARMLESS_REASONS else RESET
    wants_reset = severity == "Fatal" or status & NVLINK5_RESET_BITS.get((number, unit), 0)
    return RESET if wants_reset else MONITOR


def description_of(number: int) -> str:
    """Return what the catalogue says of an Xid or SXid, "" for one that it does not list."""
    if number in XIDS:
        return XIDS[number][1]
    maps = (SXIDS_ALWAYS_FATAL, SXIDS_FATAL, SXIDS_NON_FATAL, SXIDS_OTHER)
    return next((each[number] for each in maps if number in each), "")
