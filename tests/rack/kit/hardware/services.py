"""The vendor's daemons: nv-fabricmanager, nvidia-persistenced, nv-hostengine and the DCGM exporter."""

import http.server
import signal
import sys
import time
from pathlib import Path

import state as hardware

FABRIC_LOG = Path("/var/log/fabricmanager.log")


def wait():
    """Until systemd says to stop."""
    signal.sigwait({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def log(text):
    line = f"[{time.strftime('%b %d %Y %H:%M:%S')}] {text}"
    with FABRIC_LOG.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def fabric_manager(version):
    """Refuses another driver than its own, and hosts without NVSwitches, as the real one does."""
    state = hardware.load()
    driver = hardware.load_driver(state)
    if driver is None:
        log("[ERROR] [tid 1] failed to initialize NVSwitch driver: the NVIDIA driver is not loaded")
        return 1
    if driver != version:
        log(
            "[ERROR] [tid 1] fabric manager NVIDIA GPU driver interface version "
            f"{version} don't match with driver version {driver}. Please update with matching NVIDIA "
            "driver package."
        )
        return 1
    if not state["nvswitches"]:
        log(
            "[ERROR] [tid 1] request to query NVSwitch device information from NVSwitch driver failed "
            "with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
        )
        return 1
    log(f"[INFO] [tid 1] Fabric Manager version is : {version}")
    log(
        "[INFO] [tid 1] Successfully configured all the available GPUs and NVSwitches to route NVLink "
        "traffic."
    )
    hardware.change_setting("fabric_manager", True)
    wait()
    hardware.change_setting("fabric_manager", False)
    return 0


def persistenced(_version):
    """Keeps the driver's state on all GPUs while it runs."""
    if hardware.load_driver(hardware.load()) is None:
        print("Failed to query NVIDIA devices. Please ensure that the NVIDIA device files exist.", flush=True)
        return 1
    hardware.change_setting("persistenced", True)
    wait()
    hardware.change_setting("persistenced", False)
    return 0


def host_engine(version):
    """DCGM's host engine: it is there, or dcgmi finds none."""
    hardware.change_setting("dcgm", {"version": version, "watches": ""})
    wait()
    hardware.change_setting("dcgm", None)
    return 0


METRICS = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", "SM clock frequency (in MHz).", lambda gpu: gpu["clocks"]["sm"]),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C).", lambda gpu: gpu["temperature"]),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W).", lambda gpu: gpu["power"]["draw"]),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %).", lambda gpu: gpu["utilization"]),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB).", lambda gpu: gpu["memory_used_mib"]),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": (
        "counter",
        "Number of remapped rows for uncorrectable errors",
        lambda gpu: gpu["remapped_rows"]["uncorrectable"],
    ),
    "DCGM_FI_DEV_XID_ERRORS": (
        "gauge",
        "Value of the last XID error encountered.",
        lambda gpu: gpu["last_xid"],
    ),
}


class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        state = hardware.load()
        lines = []
        for name, (kind, text, value) in METRICS.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for index, gpu in enumerate(hardware.gpus(state)):
                labels = f'gpu="{index}",UUID="{gpu["uuid"]}",device="nvidia{gpu["minor"]}"'
                labels += f',modelName="{gpu["name"]}",Hostname="{Path("/etc/hostname").read_text().strip()}"'
                lines.append(f"{name}{{{labels}}} {value(gpu)}")
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Scrapes are not logged."""


def exporter(_version):
    address = "0.0.0.0"
    port = 9400
    for word in sys.argv[3:]:
        if word.rpartition(":")[2].isdigit():
            host, _, number = word.rpartition("=")[2].rpartition(":")
            address, port = host or "0.0.0.0", int(number)
    http.server.ThreadingHTTPServer((address, port), Exporter).serve_forever()
    return 0


DAEMONS = {
    "nv-fabricmanager": fabric_manager,
    "nvidia-persistenced": persistenced,
    "nv-hostengine": host_engine,
    "dcgm-exporter": exporter,
}

if __name__ == "__main__":
    name, own_version = sys.argv[1:3]
    if set(sys.argv[3:]) & {"-v", "--version", "-V"}:
        said = {"nv-fabricmanager": "Fabric Manager version is", "nv-hostengine": "Version"}
        print(f"{said.get(name, name + ' version')} : {own_version}")
        sys.exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    if name == "dcgm-exporter":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    sys.exit(DAEMONS[name](own_version))
