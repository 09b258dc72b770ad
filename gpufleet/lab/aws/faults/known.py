"""Faults that could never happen: services, calls, instance types and zones that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from gpufleet.catalog import Catalog
from gpufleet.errors import InputError
from gpufleet.lab.aws.faults.plan import Faults
from gpufleet.lab.aws.faults.requests import BOTOCORE_NAMES


def refuse_unknown(faults: Faults, catalog: Catalog) -> None:
    """Raises InputError for the first part of `faults` that no request can meet, with the nearest name.

    Services are named as their requests are signed; calls are those of botocore's service models, and
    services are those that the emulated AWS serves.
    """
    for action in [*(each.action for each in faults.slow), *(each.action for each in faults.failures)]:
        service, _, call = action.partition(":")
        calls = _calls(service)
        if call != "*" and call not in calls:
            raise InputError(
                f"{service} has no call {call!r}", remedy=_nearest(call, calls, f"{service}:", f"{service}:*")
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


def _calls(service: str) -> Collection[str]:
    """The calls of a service, by the name that its requests are signed with."""
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
            f"the emulated AWS does not serve {service!r}", remedy="name a service that a fleet uses, as ec2"
        )
    return list(model.operation_names)


def _is_served(service: str) -> bool:
    """Whether moto has the service, without importing moto: that takes a second."""
    moto = find_spec("moto")
    folders = list(moto.submodule_search_locations or ()) if moto is not None else []
    module = {"lambda": "awslambda"}.get(service, service.replace("-", ""))
    return any((Path(folder) / module).is_dir() for folder in folders)


def _nearest(name: str, known: Iterable[str], prefix: str, otherwise: str) -> str:
    lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {prefix}{lower[near[0]]}?" if near else f"write {otherwise}"
