"""Private addresses of subnets: those kept by a reservation, and those of instances that ended.

moto has reservations without their description, gives their addresses away, keeps those of terminated
instances, and does not find the interfaces of an instance that is terminated again. Sources: VPC User Guide,
"Subnet CIDR reservations"; EC2 API Reference, error codes (InvalidIPAddress.InUse) and TerminateInstances.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Call, operation


@operation("ec2", "CreateSubnetCidrReservation")
def create_subnet_cidr_reservation(call: Call) -> Any:
    """Keep a block of a subnet, with its description."""
    answer = call.original()
    answer.result["SubnetCidrReservation"].description = call.params.get("Description")
    return answer


def _keep_addresses() -> None:
    """Give no address of a reservation away, and free those of terminated instances."""
    from moto.ec2.models.instances import Instance
    from moto.ec2.models.subnets import Subnet

    automatic, chosen, terminate = Subnet.get_available_subnet_ip, Subnet.request_ip, Instance.terminate
    if hasattr(automatic, "__wrapped__"):
        return

    @functools.wraps(automatic)
    def free(self: Any, instance: Any) -> str:
        taken = []
        try:
            while True:
                address: str = automatic(self, instance)
                if not any(ipaddress.ip_address(address) in one.cidr for one in self._cidr_reservations):
                    return address
                taken.append(address)
        finally:
            for each in taken:
                self._subnet_ips.pop(each, None)

    @functools.wraps(chosen)
    def request(self: Any, ip: str, instance: Any) -> None:
        if ip in self._subnet_ips:
            raise AwsError("InvalidIPAddress.InUse", f"Address {ip} is in use.")
        chosen(self, ip, instance)

    @functools.wraps(terminate)
    def end(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.state == "terminated":
            return self._state
        found = terminate(self, *args, **kwargs)
        if self.subnet_id:
            subnet = self.ec2_backend.get_subnet(self.subnet_id)
            for each in self._private_ips:
                subnet.del_subnet_ip(each)
            self._private_ips = set()
        return found

    Subnet.get_available_subnet_ip, Subnet.request_ip, Instance.terminate = free, request, end


_keep_addresses()
