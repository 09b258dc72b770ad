"""`python -m gpufleet.lab.aws.hosted_provider`: an aws provider in the server of its account.

To the engine it is a plugin as any other: it prints the provider's port, and runs until it is ended.
"""

from __future__ import annotations

import os
import signal
import sys
from urllib.parse import urlsplit

from gpufleet.lab.aws.daemon import control

PROVIDER = "provider"
"""The server's control verb that starts one."""

_PASSED = ("AWS_", "GPUFLEET_ASSUMES")


def main() -> int:
    """Request a provider from the server, print its port and wait."""
    address = os.environ.get("AWS_ENDPOINT_URL", "")
    environ = {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
    started = control(urlsplit(address).port or 0, "POST", PROVIDER, environ)
    if started is None:
        sys.stderr.write(f"the emulated AWS at {address or 'no address'} has started no provider\n")
        return 1
    sys.stdout.write(f"{started['port']}\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
