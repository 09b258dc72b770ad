"""Fleets of type `instant`: instances over types and zones in one request, some of which have no capacity.

moto launches all instances of a fleet from its first override and knows no shortage. Sources: EC2 API
Reference, CreateFleet; EC2 User Guide, "Configure an EC2 Fleet of type instant".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.utils import convert_tag_spec, random_fleet_id

from gpufleet.lab.aws.backends import ec2_capacity_reservations as reservations
from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.ec2_instances import target_of
from gpufleet.lab.aws.backends.ec2_launch_rules import problems
from gpufleet.lab.aws.backends.ec2_reservation_groups import EXCEEDED, group_room
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

CODE = "InsufficientInstanceCapacity"

Room = Callable[[Any, str, str, str, Mapping[tuple[str, str], int]], int | None]


def _any_number(*_: Any) -> None:
    return None


room: Room = _any_number
"""How many more instances of (backend, type, zone, market) can launch besides those of a mapping by type and
zone; None for any number. Injected shortages replace it."""


@dataclass
class _Pool:
    """A type in a zone: the template's data with one override, and how many of its instances launch."""

    specification: Params
    override: Params
    data: Params
    zone: str
    count: int = 0
    instances: list[Any] = field(default_factory=list)


@operation("ec2", "CreateFleet")
def create_fleet(call: Call) -> Params:
    """Launch an instant fleet; a request with the token of an earlier one gets its answer."""
    given = call.params
    if given.get("Type") != "instant":
        raise AwsError("UnsupportedOperation", "The emulated AWS has fleets of type instant only.")
    backend = ec2.ec2_backend(call)
    answers = vars(backend).setdefault("gpufleet_fleets", {})
    token = given.get("ClientToken")
    if token in answers:
        repeated: Params = answers[token]
        return repeated
    answer = _launch(call, backend, given)
    if token:
        answers[token] = answer
    return answer


def _launch(call: Call, backend: Any, given: Params) -> Params:
    target = given["TargetCapacitySpecification"]
    market, wanted = (
        target.get("DefaultTargetCapacityType") or "on-demand",
        int(target["TotalTargetCapacity"]),
    )
    options = given.get("SpotOptions" if market == "spot" else "OnDemandOptions") or {}
    least = int(options.get("MinTargetCapacity") or 0)
    single_zone, single_type = (
        bool(options.get("SingleAvailabilityZone")),
        bool(options.get("SingleInstanceType")),
    )
    if least and not (single_zone or single_type):
        message = "MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType."
        raise AwsError("InvalidParameterCombination", message)
    errors: list[Params] = []
    chosen: list[_Pool] = []
    for pools in _choices(list(_pools(backend, given)), single_zone=single_zone, single_type=single_type):
        chosen = _fill(call, backend, pools, market, wanted, errors)
        if sum(pool.count for pool in chosen) >= max(least, 1):
            break
    else:
        chosen = []
    for pool in chosen:
        _run(backend, pool, market, given)
    return {
        "FleetId": random_fleet_id(),
        "Errors": errors,
        "Instances": [
            {
                "LaunchTemplateAndOverrides": _named(pool),
                "Lifecycle": market,
                "InstanceIds": [each.id for each in pool.instances],
                "InstanceType": pool.data["InstanceType"],
            }
            for pool in chosen
            if pool.instances
        ],
    }


def _pools(backend: Any, given: Params) -> Iterator[_Pool]:
    for config in given["LaunchTemplateConfigs"]:
        specification = config["LaunchTemplateSpecification"]
        data = backend._get_template_from_args(specification).data
        overrides = config.get("Overrides") or [{}]
        for override in sorted(overrides, key=lambda each: float(each.get("Priority") or 0)):
            subnet = override.get("SubnetId") or data.get("SubnetId")
            zone = backend.get_subnet(subnet).availability_zone if subnet else ""
            yield _Pool(
                specification, override, {**data, **override}, zone or override.get("AvailabilityZone", "")
            )


def _choices(pools: list[_Pool], *, single_zone: bool, single_type: bool) -> Iterable[list[_Pool]]:
    """Yield the pools that instances may come from together, the preferred ones first."""
    groups: dict[tuple[str, str], list[_Pool]] = {}
    for pool in pools:
        key = (pool.zone if single_zone else "", pool.data["InstanceType"] if single_type else "")
        groups.setdefault(key, []).append(pool)
    return groups.values()


def _fill(
    call: Call, backend: Any, pools: list[_Pool], market: str, wanted: int, errors: list[Params]
) -> list[_Pool]:
    """Set how many instances each pool launches, and add what it refuses to `errors`."""
    missing, taken = wanted, Counter[tuple[str, str]]()
    for pool in pools:
        pool.count = 0
        if not missing:
            continue
        refused = next(problems(call, pool.data, pool.zone), None)
        left, code = _room(call, backend, pool, market, taken)
        if refused is None:
            pool.count = missing if left is None else min(left, missing)
            missing -= pool.count
            taken[pool.data["InstanceType"], pool.zone] += pool.count
        if refused or missing:
            code, message = refused or (
                code,
                f"There is no capacity of {pool.data['InstanceType']} in {pool.zone}.",
            )
            errors.append(
                {
                    "LaunchTemplateAndOverrides": _named(pool),
                    "Lifecycle": market,
                    "ErrorCode": code,
                    "ErrorMessage": message,
                }
            )
    return pools


def _room(
    call: Call, backend: Any, pool: _Pool, market: str, taken: Mapping[tuple[str, str], int]
) -> tuple[int | None, str]:
    """Return how many instances a pool has room for, None for any number, and EC2's code beyond."""
    reservation_id = target_of(pool.data)
    reserved = group_room(backend, pool.data, pool.zone)
    if reserved is not None:
        return reserved - taken.get((pool.data["InstanceType"], pool.zone), 0), EXCEEDED
    if not reservation_id:
        return room(backend, pool.data["InstanceType"], pool.zone, market, taken), CODE
    reservation = reservations.find(call, reservation_id)
    if pool.zone != reservation.zone or reservation.state(utcnow()) != "active":
        return 0, "InvalidCapacityReservationState"
    return reservation.count - reservations.used(call, reservation), EXCEEDED


def _run(backend: Any, pool: _Pool, market: str, given: Params) -> None:
    if not pool.count:
        return
    tags = convert_tag_spec(pool.data.get("TagSpecifications") or [])
    asked = convert_tag_spec(given.get("TagSpecifications") or [])
    backend.gpufleet_market = market
    try:
        reservation = backend.run_instances(
            pool.data.get("ImageId"),
            pool.count,
            None,
            [],
            instance_type=pool.data["InstanceType"],
            is_instance_type_default=False,
            launch_template=pool.specification,
            subnet_id=pool.override.get("SubnetId") or pool.data.get("SubnetId"),
            placement=pool.zone or None,
            tags={
                "instance": {**tags.get("instance", {}), **asked.get("instance", {})},
                "volume": tags.get("volume", {}),
            },
        )
    finally:
        backend.gpufleet_market = ""
    pool.instances = list(reservation.instances)
    for instance in pool.instances:
        if market != "on-demand":
            instance.lifecycle = market


def _named(pool: _Pool) -> Params:
    return {"LaunchTemplateSpecification": pool.specification, "Overrides": pool.override}
