"""Gateway endpoints: a route in each of their route tables, also in those added later.

moto writes these routes when an endpoint is created and removes them when it is deleted, but not when its
route tables change in between, and then it cannot delete the endpoint. Source: Amazon VPC guide, gateway
endpoints, "Modify route tables".
"""

from __future__ import annotations

from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.operation import Call, Passthrough, operation


@operation("ec2", "ModifyVpcEndpoint")
def modify_vpc_endpoint(call: Call) -> Passthrough:
    """Add and remove routes with the route tables of a gateway endpoint."""
    backend = ec2.ec2_backend(call)
    endpoint = backend.vpc_end_points.get(call.params["VpcEndpointId"])
    before = set(endpoint.route_table_ids) if endpoint else set()
    answer = call.original()
    prefix_list = getattr(endpoint, "destination_prefix_list_id", None)
    if endpoint is None or not prefix_list:
        return answer
    after = set(endpoint.route_table_ids)
    for table in sorted(after - before):
        backend.create_route(table, None, gateway_id=endpoint.id, destination_prefix_list_id=prefix_list)
    for table in sorted(before - after):
        backend.delete_route(table, prefix_list)
    return answer
