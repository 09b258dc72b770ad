"""Validation of faults: services, calls, instance types and zones must exist."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from gpufleet.catalog import Catalog
from gpufleet.errors import InputError
from gpufleet.lab.aws.faults.plan import Faults
from gpufleet.lab.aws.faults.requests import BOTOCORE_NAMES

_EXTENSIONS = Path(__file__).parent.parent / "backends"
_DEFINED = re.compile(r"^    def (\w+)\(", re.MULTILINE)


def refuse_unknown(faults: Faults, catalog: Catalog) -> None:
    """Raise InputError for the first part of `faults` that no request can meet, with the nearest name.

    Services have their signing names; services and calls are those of botocore's service models that the
    emulated AWS serves.
    """
    for action in [*(each.action for each in faults.slow), *(each.action for each in faults.failures)]:
        service, _, call = action.partition(":")
        calls = _calls(service)
        served = {each for each in calls if _method(each) in _methods(_module(service))}
        if call != "*" and call not in calls:
            raise InputError(
                f"{service} has no call {call!r}",
                remedy=_nearest(call, served, f"{service}:", f"{service}:*"),
            )
        if call != "*" and call not in served:
            near = get_close_matches(call, served, n=3, cutoff=0.4)
            raise InputError(
                f"the emulated AWS does not serve {service}:{call}",
                remedy=f"write {' or '.join(f'{service}:{each}' for each in [*near, '*'])}",
            )
    zones = {zone.name for region in catalog.regions.values() for zone in region.zones}
    for shortage in faults.shortages:
        if shortage.type not in catalog.instances:
            raise InputError(
                f"the catalog has no instance type {shortage.type!r}",
                remedy=_nearest(shortage.type, catalog.instances, "", "`gpufleet catalog instances`"),
            )
        if shortage.zone and zones and shortage.zone not in zones:
            raise InputError(
                f"the catalog has no zone {shortage.zone!r}",
                remedy=_nearest(shortage.zone, zones, f"{shortage.type}:", "a name such as us-east-1a"),
            )


@lru_cache(maxsize=8)
def _calls(service: str) -> Collection[str]:
    """Return the calls of a service, by its signing name."""
    import botocore.session
    from botocore.exceptions import UnknownServiceError

    session = botocore.session.Session()
    name = BOTOCORE_NAMES.get(service, service)
    try:
        model = session.get_service_model(name)
    except UnknownServiceError:
        known = [*filter(_is_served, session.get_available_services()), *BOTOCORE_NAMES]
        raise InputError(
            f"AWS has no service {service!r}", remedy=_nearest(service, known, "", "a name such as ec2")
        ) from None
    signed = str(model.signing_name)
    if signed != service:
        raise InputError(
            f"requests of {service} are signed as {signed!r}", remedy=f"write {signed}:<call> in its place"
        )
    if not _is_served(name):
        raise InputError(
            f"the emulated AWS does not serve {service!r}", remedy="use a service of a fleet, such as ec2"
        )
    return list(model.operation_names)


def _is_served(service: str) -> bool:
    """Return whether moto has the service, without importing moto, which takes a second."""
    return any((folder / _module(service)).is_dir() for folder in _moto())


def _module(service: str) -> str:
    """Return moto's module of a service."""
    name = BOTOCORE_NAMES.get(service, service)
    return {"lambda": "awslambda"}.get(name, name.replace("-", ""))


def _moto() -> list[Path]:
    moto = find_spec("moto")
    return [Path(folder) for folder in (moto.submodule_search_locations or ())] if moto is not None else []


@lru_cache(maxsize=8)
def _methods(module: str) -> frozenset[str]:
    """Return the methods for calls of a service, in moto and in our extensions, read as text.

    moto names a method after its call. S3 handles some calls in methods that are named after the HTTP verb;
    then its model has the method of the call.
    """
    places = ["responses.py", "responses/*.py", *(["models.py"] if module == "s3" else [])]
    files = [file for folder in _moto() for place in places for file in (folder / module).glob(place)]
    theirs = {name for file in files for name in _DEFINED.findall(file.read_text(encoding="utf-8"))}
    own = re.compile(rf'^@operation\("{module}", "(\w+)"\)', re.MULTILINE)
    texts = [file.read_text(encoding="utf-8") for file in _EXTENSIONS.glob("*.py")]
    ours = {_method(name) for text in texts for name in own.findall(text)}
    return frozenset(theirs | ours)


def _method(call: str) -> str:
    """Return moto's method name of a call: `create_vpc` for `CreateVpc`."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", call)).lower()


def _nearest(name: str, known: Iterable[str], prefix: str, otherwise: str) -> str:
    lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {prefix}{lower[near[0]]}?" if near else f"write {otherwise}"
