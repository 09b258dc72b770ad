"""mount.nfs, mount.lustre and others: they mount a folder that all hosts share, since the kernel knows none.

    mount.nfs SOURCE DIRECTORY [-o OPTIONS]
    mount.wekafs BACKEND[,BACKEND]/FS DIRECTORY [-o OPTIONS]
    mount.beegfs beegfs_nodev DIRECTORY -o sysMgmtdHost=HOST,...
    mount.gpfs FS DIRECTORY -o dev=FS,...

Servers that are in /srv/hardware/state.json as `unreachable` do not answer.
"""

import subprocess
import sys
from pathlib import Path

import state as hardware

SHARED = Path("/srv/shared")


def main(arguments):
    words = [word for word in arguments if not word.startswith("-")]
    source, target = words[:2]
    options = dict(item.partition("=")[::2] for word in words[2:] for item in word.split(","))
    server, _, export = source.rpartition(":")
    if source == "beegfs_nodev":
        server = options.get("sysMgmtdHost", "")
    elif options.get("dev") == source:
        server, export = "cluster", source
    elif not server:
        server, _, export = source.partition("/")
    if not server or not export:
        print(f"mount: {source}: remote share not in 'host:dir' format", file=sys.stderr)
        return 32
    if server in hardware.load().get("unreachable", []):
        print("mount.nfs: Connection timed out", file=sys.stderr)
        return 32
    folder = SHARED / server.replace("/", "_") / export.strip("/").replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o1777)
    return subprocess.run(["mount", "--bind", folder, target], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
