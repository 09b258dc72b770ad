"""The port-forward of an endpoint, started by the first process that needs it and shared by the others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from gpufleet.eks_access import keeper
from gpufleet.eks_access.programs import PLUGIN, require_programs
from gpufleet.eks_access.rendezvous import Rendezvous
from gpufleet.eks_access.session import NODE_WAIT_S, PORT_WAIT_S, SessionTarget, answers
from gpufleet.errors import CloudError, GpufleetError, InputError
from gpufleet.loopback import LOOPBACK

_POLL_S = 0.2
_STALE_AFTER_S = 10.0
_SPARE_S = 60.0
_keepers: list[subprocess.Popen[bytes]] = []
"""The keepers that this process has started. They outlive it, and nothing waits for them."""


def ensure_forward(target: SessionTarget, user: int) -> None:
    """Return once the endpoint answers on the port; keep it open while the process `user` runs.

    Raises InputError for a missing plugin and a port that another process uses, CloudError if no node leads
    to the endpoint.
    """
    require_programs(PLUGIN, site=target.cluster)
    place = Rendezvous.of(target.host)
    until = time.monotonic() + NODE_WAIT_S + PORT_WAIT_S + _SPARE_S
    while True:
        _join(target, place, user)
        if _wait(target, place, until):
            return


def _join(target: SessionTarget, place: Rendezvous, user: int) -> None:
    """Register the user, and start a keeper if none runs."""
    with place.locked():
        place.register(user)
        if place.state().get("state") == "ending" and place.is_kept():
            return
        keeping = place.take_keeping()
        if keeping is None:
            return
        try:
            _require_free_port(target)
            place.clear()
            _start(target, place, keeping)
        finally:
            os.close(keeping)


def _start(target: SessionTarget, place: Rendezvous, keeping: int) -> None:
    """Start a keeper, which inherits the descriptor with the lock: the lock ends with the process."""
    descriptor = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell is involved
            [sys.executable, "-m", keeper.__name__],
            stdin=subprocess.PIPE,
            stdout=descriptor,
            stderr=descriptor,
            pass_fds=(keeping,),
            # It outlives this command, and a Ctrl-C is for its users.
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    if process.stdin is None:
        raise AssertionError("the keeper has a pipe for its input")
    _keepers.append(process)
    with process.stdin as pipe:
        pipe.write(keeper.describe(target, place).encode())


def _wait(target: SessionTarget, place: Rendezvous, until: float) -> bool:
    """Wait until the endpoint answers. Return False if the keeper was just ending: then join again."""
    silent_since: float | None = None
    while True:
        state = place.state()
        kept = place.is_kept()
        match state.get("state"):
            case "ready" if kept:
                if answers(target):
                    return True
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > _STALE_AFTER_S:
                    place.mark_stale(str(state.get("session")))
                    silent_since = None
            case "failed":
                raise _failure(state)
            case "ending" if not kept:
                return False
            case _ if not kept:
                if place.state() == state:
                    raise CloudError(
                        f"the port-forward to cluster {target.cluster} has ended unexpectedly",
                        remedy=f"its log is {place.log}; run the same command again",
                    )
        if time.monotonic() > until:
            raise CloudError(
                f"cluster {target.cluster} does not answer through a port-forward",
                remedy=f"its log is {place.log}",
            )
        time.sleep(_POLL_S)


def _failure(state: dict[str, object]) -> GpufleetError:
    kind = InputError if state.get("exit") == int(InputError.exit_code) else CloudError
    return kind(str(state.get("message")), remedy=str(state.get("remedy") or ""))


def _require_free_port(target: SessionTarget) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((LOOPBACK, target.port))
        except OSError:
            raise InputError(
                f"port {target.port} of this machine leads to cluster {target.cluster}, and another process"
                " uses it",
                remedy="end that process, or set `kubernetes.access_port` of the site to a free port",
            ) from None
