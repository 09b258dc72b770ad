"""Launching instances: EC2's rejections, and the placement of each instance.

moto launches MinCount instances in any case and drops placement group and reservation. RunInstances and Auto
Scaling groups both use `InstanceBackend.run_instances`, where placement is recorded.
"""

from __future__ import annotations

import functools
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import ec2_capacity_reservations as reservations
from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.ec2_launch_rules import check_launch
from gpufleet.lab.aws.backends.ec2_reservation_groups import EXCEEDED, EXCEEDED_MESSAGE, fitting, group_room
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

_OVERRIDES = (
    "ImageId",
    "InstanceType",
    "NetworkInterfaces",
    "Placement",
    "CapacityReservationSpecification",
    "InstanceMarketOptions",
)


_MOTOS_ROOT = "/dev/sda1"


@operation("ec2", "RunInstances")
def run_instances(call: Call) -> Passthrough:
    """Launch MaxCount instances, or reject the request as EC2 does."""
    given = call.params
    data = launch_data(call, given)
    zone = _zone(call, data, given.get("SubnetId"))
    check_launch(call, data, zone)
    count = int(given.get("MaxCount") or given.get("MinCount") or 1)
    reservation_id = target_of(data)
    if reservation_id:
        _check_room(call, reservation_id, count)
    left = group_room(ec2.ec2_backend(call), data, zone)
    if left is not None and left < count:
        raise AwsError(EXCEEDED, EXCEEDED_MESSAGE)
    call.response.params["MinCount"] = count
    answer = call.original()
    for instance in answer.result.instances:
        _place(instance, data)
    return answer


def launch_data(call: Call, given: Params) -> Params:
    """Return the launch template's data, overridden by the request's own fields."""
    data: Params = {}
    specification = given.get("LaunchTemplate")
    if specification:
        data = dict(ec2.ec2_backend(call)._get_template_from_args(specification).data)
    return data | {key: given[key] for key in _OVERRIDES if given.get(key)}


def target_of(data: Params) -> str | None:
    """Return the reservation that a launch targets by id."""
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    found: str | None = target.get("CapacityReservationId")
    return found


def _zone(call: Call, data: Params, subnet_id: str | None) -> str | None:
    interfaces = data.get("NetworkInterfaces") or [{}]
    subnet_id = subnet_id or interfaces[0].get("SubnetId")
    if subnet_id:
        zone: str = ec2.ec2_backend(call).get_subnet(subnet_id).availability_zone
        return zone
    return (data.get("Placement") or {}).get("AvailabilityZone")


def _check_room(call: Call, reservation_id: str, count: int) -> None:
    reservation = reservations.find(call, reservation_id)
    free = reservation.count - reservations.used(call, reservation)
    if reservation.state(utcnow()) != "active":
        message = f"The capacity reservation {reservation_id} is not active yet."
        raise AwsError("InvalidCapacityReservationState", message)
    if count > free:
        message = f"The requested reservation {reservation_id} has {free} instances left, not {count}."
        raise AwsError("ReservationCapacityExceeded", message)


def _own_interfaces(instance: Any, interfaces: list[Params]) -> None:
    """Delete interfaces that a launch creates with the instance, unless the launch keeps them."""
    kept = {
        int(one.get("DeviceIndex") or 0)
        for one in interfaces
        if one.get("NetworkInterfaceId") or one.get("DeleteOnTermination") is False
    }
    for index, interface in instance.nics.items():
        interface.delete_on_termination = index not in kept


def _own_volumes(instance: Any, mappings: list[Params]) -> None:
    """Create one root volume, deleted with the instance; moto always adds one of 8 GiB."""
    devices, backend = instance.block_device_mapping, instance.ec2_backend
    named = {one["DeviceName"]: one.get("Ebs") or {} for one in mappings}
    root = instance.root_device_name
    if root in named:
        devices[root].delete_on_termination = named[root].get("DeleteOnTermination", True)
        if _MOTOS_ROOT not in named:
            devices.pop(_MOTOS_ROOT, None)
    kept = {device.volume_id for device in devices.values()}
    for volume in list(backend.volumes.values()):
        attachment = volume.attachment
        if attachment and attachment.instance.id == instance.id and volume.id not in kept:
            volume.attachment = None
            backend.delete_volume(volume.id)


def _place(instance: Any, data: Params) -> None:
    placement = data.get("Placement") or {}
    if placement.get("GroupName"):
        instance.placement.group_name = placement["GroupName"]
    if placement.get("Tenancy"):
        instance.placement.tenancy = placement["Tenancy"]
    instance.capacity_reservation_id = None
    kind = {**data, "InstanceType": data.get("InstanceType") or instance.instance_type}
    own = target_of(data)
    for held, _ in fitting(instance.ec2_backend, kind, instance._placement.zone)[:1]:
        own = held.reservation_id
    instance.capacity_reservation_id = own
    instance.capacity_reservation_specification = data.get("CapacityReservationSpecification")


def _record_placement() -> None:
    """Record placement group and reservation of every launch from a template."""
    from moto.ec2.models.instances import InstanceBackend

    original = InstanceBackend.run_instances
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        reservation = original(self, *args, **kwargs)
        data: Params = {}
        if kwargs.get("launch_template"):
            data = self._get_template_from_args(kwargs["launch_template"]).data
        for instance in reservation.instances:
            _own_interfaces(instance, kwargs.get("nics") or data.get("NetworkInterfaces") or [])
            _own_volumes(
                instance, kwargs.get("block_device_mappings") or data.get("BlockDeviceMappings") or []
            )
            _place(instance, data)
        return reservation

    InstanceBackend.run_instances = run


_record_placement()
