"""The vendor's daemons: nv-fabricmanager, nvidia-persistenced, nv-hostengine and the DCGM exporter."""

import argparse
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
    hardware.change_setting("dcgm", {"version": version, "watches": []})
    wait()
    hardware.change_setting("dcgm", None)
    return 0


# Fields of DCGM: what a healthy or faulty GPU has there. Those that nothing here tells are 0.
VALUES = {
    "DCGM_FI_DEV_SM_CLOCK": lambda gpu: gpu["clocks"]["sm"],
    "DCGM_FI_DEV_MEM_CLOCK": lambda gpu: gpu["clocks"]["memory"],
    "DCGM_FI_DEV_GPU_TEMP": lambda gpu: gpu["temperature"],
    "DCGM_FI_DEV_MEMORY_TEMP": lambda gpu: gpu["memory_temperature"],
    "DCGM_FI_DEV_POWER_USAGE": lambda gpu: gpu["power"]["draw"],
    "DCGM_FI_DEV_GPU_UTIL": lambda gpu: gpu["utilization"],
    "DCGM_FI_DEV_FB_USED": lambda gpu: gpu["memory_used_mib"],
    "DCGM_FI_DEV_FB_FREE": lambda gpu: gpu["memory_mib"] - gpu["memory_used_mib"],
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": lambda gpu: gpu["pcie"]["replays"],
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": lambda gpu: gpu["remapped_rows"]["uncorrectable"],
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": lambda gpu: gpu["remapped_rows"]["correctable"],
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": lambda gpu: int(gpu["remapped_rows"]["failure"]),
    "DCGM_FI_DEV_RETIRED_SBE": lambda gpu: gpu["retired_pages"]["single_bit"],
    "DCGM_FI_DEV_RETIRED_DBE": lambda gpu: gpu["retired_pages"]["double_bit"],
    "DCGM_FI_DEV_XID_ERRORS": lambda gpu: gpu["last_xid"],
}


def read_counters(path):
    """(field, type, help) of the exporter's counters file; raises ValueError as the exporter ends."""
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        parts = [part.strip() for part in line.split(",", 2)]
        if not line.strip() or line.startswith("#"):
            continue
        if len(parts) != 3 or not parts[0].startswith(("DCGM_FI_", "DCGM_EXP_")) or parts[1] not in TYPES:
            raise ValueError(f"{path}:{number}: malformed record: {line}")
        yield parts


TYPES = ("gauge", "counter", "histogram", "summary", "label")


class Exporter(http.server.BaseHTTPRequestHandler):
    counters = ()

    def do_GET(self):
        state = hardware.load()
        lines = []
        for name, kind, text in self.counters:
            if kind == "label":
                continue
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for index, gpu in enumerate(hardware.gpus(state)):
                labels = f'gpu="{index}",UUID="{gpu["uuid"]}",device="nvidia{gpu["minor"]}"'
                labels += f',modelName="{gpu["name"]}",Hostname="{Path("/etc/hostname").read_text().strip()}"'
                if name == "DCGM_EXP_XID_ERRORS_COUNT" and gpu["last_xid"]:
                    labels += f',window_size_in_ms="300000",xid="{gpu["last_xid"]}"'
                    lines.append(f"{name}{{{labels}}} 1")
                    continue
                lines.append(f"{name}{{{labels}}} {VALUES.get(name, lambda _: 0)(gpu)}")
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Scrapes are not logged."""


def exporter(_version):
    """Serves the fields of its counters file; with `-r` it needs a host engine."""
    options = argparse.ArgumentParser("dcgm-exporter")
    options.add_argument("-f", "--collectors", default="/etc/dcgm-exporter/default-counters.csv")
    options.add_argument("-a", "--address", default=":9400")
    options.add_argument("-r", "--remote-hostengine-info")
    options.add_argument("-c", "--collect-interval", type=int, default=30000)
    given = options.parse_args(sys.argv[3:])
    try:
        Exporter.counters = tuple(read_counters(given.collectors))
    except (OSError, ValueError) as error:
        print(f'level=fatal msg="{error}"', flush=True)
        return 1
    if given.remote_hostengine_info and not hardware.setting("dcgm"):
        print(
            'level=fatal msg="error connecting to nv-hostengine: Host engine connection invalid"', flush=True
        )
        return 1
    host, _, port = given.address.rpartition(":")
    http.server.ThreadingHTTPServer((host or "0.0.0.0", int(port)), Exporter).serve_forever()
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
        reported = {"nv-fabricmanager": "Fabric Manager version is", "nv-hostengine": "Version"}
        print(f"{reported.get(name, name + ' version')} : {own_version}")
        sys.exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    if name == "dcgm-exporter":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    sys.exit(DAEMONS[name](own_version))
