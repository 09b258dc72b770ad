"""The process that tests/warm_servers.py starts: it imports modules once; each of its forks serves a command.

Run as a script with the number of a listening socket, that of a pipe that closes with its owner, the script
of the fork server, and the modules. Like that script, it imports nothing of gpufleet.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys

import setproctitle


def serve(listener: socket.socket, owner: int) -> int:
    """Fork for everyone who asks until the owner has ended. Return, in each fork, its link."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if owner in select.select([listener, owner], [], [])[0]:
            os._exit(0)
        asked, _ = listener.accept()
        with asked:
            _, links, _, _ = socket.recv_fds(asked, 32, 1)
            if not links:  # who has asked is gone
                continue
            process = os.fork()
            if process == 0:
                os.setsid()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                os.close(owner)
                return links[0]
            os.close(links[0])
            with contextlib.suppress(OSError):
                asked.send(str(process).encode())


if __name__ == "__main__":
    setproctitle.setproctitle("gpufleet-test-fork-servers")
    gc.disable()
    listening, owning, script, *modules = sys.argv[1:]
    for name in modules:
        getattr(importlib.import_module(name), "_", None)
    gc.freeze()
    sys.argv = [script, str(serve(socket.socket(fileno=int(listening)), int(owning)))]
    runpy.run_path(script, run_name="__main__")
