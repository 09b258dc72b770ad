"""The process that keeps a port-forward while processes use it: `python -m gpufleet.eks_access.keeper`.

It reads its target as JSON from its standard input, starts a new session when one ends, and ends itself and
the session when the last user has ended. So nothing has to stop it, and no run leaves it behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.eks_access.rendezvous import Rendezvous
from gpufleet.eks_access.session import Session, SessionTarget, open_session
from gpufleet.errors import CloudError, GpufleetError

POLL_S = 0.5
_MOST_FAILURES = 3
"""Sessions that may fail one after the other before the keeper gives up."""


def main() -> int:
    """Keep the port-forward of the target on standard input. Returns the exit code."""
    given = json.loads(sys.stdin.read())
    target = target_of(given)
    place = Rendezvous(Path(given["folder"]))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        keep(target, place, sys.stdout.buffer)
    except GpufleetError as error:
        place.report(state="failed", message=error.message, remedy=error.remedy, exit=int(error.exit_code))
        return int(error.exit_code)
    return 0


def keep(target: SessionTarget, place: Rendezvous, log: IO[bytes]) -> None:
    """Keep a session open until no user runs. Raises what the last of three failed sessions raised."""
    failures = 0
    while True:
        place.report(state="starting")
        try:
            session = open_session(target, log, wanted=lambda: bool(place.users()))
        except CloudError:
            failures += 1
            if failures == _MOST_FAILURES or _is_over(place):
                raise
            time.sleep(POLL_S)
            continue
        try:
            place.report(state="ready", session=session.id, node=session.node)
            failures = 0
            if not _watch(session, place):
                return
        finally:
            session.end()


def describe(target: SessionTarget, place: Rendezvous) -> str:
    """Return what `main` reads."""
    return json.dumps(
        {
            **{key: getattr(target, key) for key in ("cluster", "region", "host", "port")},
            "profile": target.identity.profile,
            "roles": [dict(role) for role in target.identity.roles],
            "folder": str(place.folder),
        }
    )


def target_of(given: dict[str, Any]) -> SessionTarget:
    """Return the target that `describe` wrote."""
    identity = AwsIdentity(given["profile"], tuple(given["roles"]))
    return SessionTarget(given["cluster"], given["region"], given["host"], given["port"], identity)


def _watch(session: Session, place: Rendezvous) -> bool:
    """Wait while the session serves users. Return whether another one is needed."""
    while session.running() and not place.is_stale(session.id):
        if _is_over(place):
            return False
        time.sleep(POLL_S)
    return bool(place.users())


def _is_over(place: Rendezvous) -> bool:
    """Return whether no user is left; then no other can come before this keeper has ended."""
    if place.users():
        return False
    with place.locked():
        if place.users():
            return False
        place.report(state="ending")
        return True


def _end(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
