"""Applies faults in the emulated AWS: rejects, delays or hides requests."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import InputError
from gpufleet.lab.aws.faults.buckets import REJECTED, TokenBucket, request_rate, resource_rate
from gpufleet.lab.aws.faults.plan import Faults, InjectedFailure, read_faults
from gpufleet.lab.aws.faults.requests import Request
from gpufleet.lab.aws.faults.shortage import CODE, has_shortage, shortage_message

_MADE = re.compile(r"\b([a-z]+)-[0-9a-f]{8,17}\b")
_NOT_FOUND = {
    "cr": "InvalidCapacityReservationId.NotFound",
    "eipalloc": "InvalidAllocationID.NotFound",
    "i": "InvalidInstanceID.NotFound",
    "igw": "InvalidInternetGatewayID.NotFound",
    "lt": "InvalidLaunchTemplateId.NotFound",
    "nat": "NatGatewayNotFound",
    "rtb": "InvalidRouteTableID.NotFound",
    "sg": "InvalidGroup.NotFound",
    "sgr": "InvalidSecurityGroupRuleId.NotFound",
    "subnet": "InvalidSubnetID.NotFound",
    "vpc": "InvalidVpcID.NotFound",
    "vpce": "InvalidVpcEndpointId.NotFound",
}
"""Prefix of an id -> EC2's error code for an unknown one (EC2 API reference, error codes)."""

_NAMED = {"CreateRole": "RoleName", "CreateInstanceProfile": "InstanceProfileName"}
"""IAM operations whose new resources are found late, and the parameter with their name."""


class Refusal(Struct, frozen=True):
    """An error instead of an answer."""

    code: str
    message: str
    status: int = 400


class Injector:
    """The faults of one emulated AWS; thread-safe. A changed file restarts everything.

    `clock` is any steady clock in seconds and `sleep` waits on it: tests provide their own.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._restart(Faults())

    def _restart(self, faults: Faults) -> None:
        self.faults = faults
        self._buckets: dict[tuple[str, ...], TokenBucket] = {}
        self._calls: Counter[int] = Counter()
        self._hidden: dict[str, float] = {}
        self._counts: Counter[str] = Counter()

    def refresh(self) -> Faults:
        """Return the current faults. An unreadable file counts as none (the CLI rejects it)."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
        except OSError:
            stamp = None
        with self._lock:
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._restart(read_faults(self._path))
                except InputError:
                    self._restart(Faults())
            return self.faults

    def report(self) -> dict[str, Any]:
        """Return the current faults, and how often each kind has met a request."""
        faults = self.refresh()
        with self._lock:
            return {"faults": faults.model_dump(mode="json"), "injected": dict(sorted(self._counts.items()))}

    def before(self, request: Request) -> Refusal | None:
        """Return why a request is not performed; None if it is."""
        return (
            self._throttled(request)
            or self._failing(request, done=False)
            or self._late(request)
            or self._short(request)
        )

    def after(self, request: Request, status: int, body: bytes) -> Refusal | None:
        """Record what a performed request created; delay its answer or return why it is lost.

        Only the answer is slow: a client that ends while it waits leaves a created resource.
        """
        if status < 300 and self.faults.late_s:
            self._hide(request, body)
        for slow in self.faults.slow:
            if _meant(slow.action, request):
                self._count("slow", request)
                self._sleep(slow.seconds)
        return self._failing(request, done=True)

    # -- kinds

    def _throttled(self, request: Request) -> Refusal | None:
        if not self.faults.throttle or request.service != "ec2" or not request.action:
            return None
        name, rate = request_rate(request.action, request.parameters)
        wanted = [((request.region, request.action, name), rate, 1.0)]
        resources = resource_rate(request.action)
        if resources is not None:
            wanted.append(((request.region, request.action, "resources"), resources, _resources(request)))
        now = self._clock()
        with self._lock:
            for key, size, tokens in wanted:
                bucket = self._buckets.setdefault(key, TokenBucket(size, now))
                if not bucket.take(tokens, now):
                    self._counts[f"throttled {request.service}:{request.action}"] += 1
                    return Refusal(REJECTED, "Request limit exceeded.", 503)
            self._counts[f"admitted {request.service}:{request.action}"] += 1
        return None

    def _failing(self, request: Request, *, done: bool) -> Refusal | None:
        for index, failure in enumerate(self.faults.failures):
            if failure.done is done and _meant(failure.action, request):
                with self._lock:
                    self._calls[index] += 1
                    call = self._calls[index]
                if failure.call <= call < failure.call + failure.times:
                    self._count("failed", request)
                    return _refusal_of(failure)
        return None

    def _late(self, request: Request) -> Refusal | None:
        if not self._hidden or request.service not in ("ec2", "iam"):
            return None
        now = self._clock()
        with self._lock:
            self._hidden = {name: until for name, until in self._hidden.items() if until > now}
            found = next((name for name in self._hidden if _mentions(request.text, name)), None)
        if found is None or request.action in _NAMED:
            return None
        self._count("late", request)
        if request.service == "iam":
            return Refusal("NoSuchEntity", f"{found} cannot be found.", 404)
        kind = found.partition("-")[0]
        return Refusal(_NOT_FOUND[kind], f"The {kind} ID '{found}' does not exist")

    def _hide(self, request: Request, body: bytes) -> None:
        until = self._clock() + self.faults.late_s
        if request.service == "iam" and request.action in _NAMED:
            names = [request.parameters.get(_NAMED[request.action], "")]
        elif request.service == "ec2" and request.action.startswith(
            ("Create", "Allocate", "Authorize", "Run")
        ):
            text = body.decode("utf-8", errors="replace")
            names = [
                match[0]
                for match in _MADE.finditer(text)
                if match[1] in _NOT_FOUND and not _mentions(request.text, match[0])
            ]
        else:
            return
        with self._lock:
            self._hidden |= dict.fromkeys(filter(None, names), until)

    def _short(self, request: Request) -> Refusal | None:
        if request.service != "ec2" or request.action != "CreateCapacityReservation":
            return None
        kind, zone = (request.parameters.get(key, "") for key in ("InstanceType", "AvailabilityZone"))
        if not has_shortage(self.faults.shortages, kind, zone):
            return None
        self._count("short", request)
        return Refusal(CODE, shortage_message(kind, zone), 500)

    def _count(self, kind: str, request: Request) -> None:
        with self._lock:
            self._counts[f"{kind} {request.service}:{request.action}"] += 1


def _meant(action: str, request: Request) -> bool:
    service, _, operation = action.partition(":")
    return service == request.service and operation in ("*", request.action)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9-]){re.escape(name)}(?![A-Za-z0-9-])", text) is not None


def _resources(request: Request) -> float:
    """Return how many instances a request is about."""
    if request.action == "RunInstances":
        return float(request.parameters.get("MaxCount") or 1)
    return float(sum(name.startswith("InstanceId.") for name in request.parameters) or 1)


def _refusal_of(failure: InjectedFailure) -> Refusal:
    return Refusal(failure.code, failure.message, failure.status)
