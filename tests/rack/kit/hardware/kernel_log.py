"""dmesg: the log of this host's kernel, as the machine's own is not the host's to read."""

import json
import sys
import time
from pathlib import Path

import state as hardware


def booted():
    """When the kernel was started, in whole seconds: a line has the same stamp whenever it is printed."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0


def main(arguments):
    if any(flag in arguments for flag in ("-C", "--clear", "-c")):
        with hardware.changing() as found:
            found["kernel_log"] = []
        return 0
    as_json = "-J" in arguments or "--json" in arguments
    lines, start = [], booted()
    for entry in hardware.load()["kernel_log"]:
        lines.append((max(0.0, entry["time"] - start), entry))
    if as_json:
        print(json.dumps({"dmesg": [{"pri": 4, "time": since, "msg": e["text"]} for since, e in lines]}))
        return 0
    human = any(flag in arguments for flag in ("-T", "--ctime", "-HT"))
    iso = "--time-format=iso" in arguments or ("--time-format" in arguments and "iso" in arguments)
    for since, entry in lines:
        if "-t" in arguments or "--notime" in arguments:
            print(entry["text"])
        elif iso:
            local = time.localtime(entry["time"])
            print(time.strftime("%Y-%m-%dT%H:%M:%S,000000", local) + "+00:00 " + entry["text"])
        elif human:
            print(time.strftime("[%a %b %e %H:%M:%S %Y] ", time.localtime(entry["time"])) + entry["text"])
        else:
            print(f"[{since:12.6f}] {entry['text']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
