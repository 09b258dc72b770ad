"""Whether this machine reaches itself: engines, providers and the emulated AWS use the loopback interface."""

from __future__ import annotations

import socket

from gpufleet.errors import InputError

LOOPBACK = "127.0.0.1"


def require_loopback() -> None:
    """Raise InputError if a connection to the machine's own address fails, as in an empty namespace."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=5).close()
    except OSError as error:
        raise InputError(
            f"this machine does not reach itself at {LOOPBACK}: {error.strerror or error}",
            remedy="enable the loopback interface (`ip link set lo up`), then run the same command again",
        ) from None
