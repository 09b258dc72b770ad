"""The functions of pulumi_aws that the sandbox answers, by token."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from gpufleet.errors import InputError
from gpufleet.lab.aws.provider import schema
from gpufleet.lab.aws.provider.errors import explain
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.wire import Props

Function = Callable[[Aws, Props], Props]

_PACKAGE = "gpufleet.lab.aws.provider.invokes"
_FUNCTIONS = {
    "aws:ec2/getAmi:getAmi": ("ec2", "get_ami"),
    "aws:ec2/getCapacityBlockOffering:getCapacityBlockOffering": ("ec2", "get_capacity_block_offering"),
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": ("ec2", "get_instance_type_offerings"),
    "aws:ec2/getInstances:getInstances": ("ec2", "get_instances"),
    "aws:ec2/getRouteTable:getRouteTable": ("lookups", "get_route_table"),
    "aws:ec2/getSubnets:getSubnets": ("ec2", "get_subnets"),
    "aws:ec2/getVpc:getVpc": ("ec2", "get_vpc"),
    "aws:eks/getClusterAuth:getClusterAuth": ("account", "get_cluster_auth"),
    "aws:iam/getPolicyDocument:getPolicyDocument": ("policy_document", "get_policy_document"),
    "aws:index/getAvailabilityZones:getAvailabilityZones": ("account", "get_availability_zones"),
    "aws:index/getCallerIdentity:getCallerIdentity": ("account", "get_caller_identity"),
    "aws:index/getPartition:getPartition": ("account", "get_partition"),
    "aws:index/getRegion:getRegion": ("account", "get_region"),
    "aws:resourcegroupstaggingapi/getResources:getResources": ("lookups", "get_resources"),
    "aws:s3/getObjects:getObjects": ("lookups", "get_objects"),
    "aws:ssm/getParameter:getParameter": ("account", "get_parameter"),
    "aws:ssm/getParametersByPath:getParametersByPath": ("account", "get_parameters_by_path"),
}


def run_invoke(aws: Aws, token: str, arguments: Props) -> Props:
    """The result of a function. Raises InputError for unknown functions and arguments."""
    if token not in _FUNCTIONS:
        raise InputError(
            f"the emulated AWS of gpufleet does not have the function {token}",
            remedy="use the Pulumi CLI with a real account for it, or do not use it in the sandbox",
        )
    declared = schema.function(token)
    found = list(schema.problems(declared.inputs, arguments))
    if found:
        raise InputError(f"{token}: " + "; ".join(problem.reason for problem in found))
    module, name = _FUNCTIONS[token]
    function: Function = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
    try:
        result: dict[str, Any] = function(aws, arguments)
    except Exception as error:
        raise explain(error, token, "calling") from error
    if "region" in declared.outputs:
        result.setdefault("region", aws.region)
    # The real provider includes the arguments in the results.
    repeated = {key: value for key, value in arguments.items() if key in declared.outputs}
    return {**repeated, **{key: value for key, value in result.items() if value is not None}}
