"""dmesg: the log of this host's kernel, as the machine's own is not the host's to read."""

import json
import sys
import time

import state as hardware

SINCE_BOOT = time.clock_gettime(time.CLOCK_MONOTONIC)


def main(arguments):
    if any(flag in arguments for flag in ("-C", "--clear", "-c")):
        with hardware.changing() as found:
            found["kernel_log"] = []
        return 0
    as_json = "-J" in arguments or "--json" in arguments
    lines = []
    for entry in hardware.load()["kernel_log"]:
        since = max(0.0, SINCE_BOOT - (time.time() - entry["time"]))
        lines.append((since, entry))
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
