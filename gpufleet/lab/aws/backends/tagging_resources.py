"""GetResources of the Resource Groups Tagging API, with resources of the sandbox that moto omits.

moto returns the resources of its own services, and uses other names than ARNs for some EC2 kinds; this module
adds EC2's tags, FSx's associations, EKS's pod identities, shares of RAM, and endpoints and rules of Route 53
Resolver.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.lab.aws.backends.operation import Call, Params, operation

_EC2_KINDS = {
    "cgw": "customer-gateway",
    "cr": "capacity-reservation",
    "eipalloc": "elastic-ip",
    "fl": "vpc-flow-log",
    "i": "instance",
    "igw": "internet-gateway",
    "lt": "launch-template",
    "nat": "natgateway",
    "rtb": "route-table",
    "sg": "security-group",
    "sgr": "security-group-rule",
    "subnet": "subnet",
    "vgw": "vpn-gateway",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
    "vpn": "vpn-connection",
}
"""Prefix of an id -> the kind in ARNs (Service Authorization Reference, Amazon EC2)."""

Tagged = tuple[str, dict[str, str]]


@operation("resourcegroupstaggingapi", "GetResources")
def get_resources(call: Call) -> Params:
    """Return all resources of the region whose tags match every filter, always as one page."""
    filters = [(item["Key"], set(item.get("Values") or ())) for item in call.params.get("TagFilters") or ()]
    kinds = call.params.get("ResourceTypeFilters") or ()
    found = {
        arn: tags
        for arn, tags in (
            *(*_motos(call), *_ec2(call), *_fsx(call), *_eks(call)),
            *(*_resolver(call), *_ram(call)),
        )
        if tags
        and all(key in tags and (not values or tags[key] in values) for key, values in filters)
        and (not kinds or any(_is_of(arn, kind) for kind in kinds))
    }
    return {
        "PaginationToken": "",
        "ResourceTagMappingList": [
            {
                "ResourceARN": arn,
                "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())],
            }
            for arn, tags in sorted(found.items())
        ],
    }


def _is_of(arn: str, kind: str) -> bool:
    """Return whether an ARN has a type such as `ec2` or `ec2:subnet`."""
    service, _, resource = kind.partition(":")
    parts = arn.split(":", 5)
    return parts[2] == service and (not resource or parts[5].split("/", 1)[0] == resource)


def _motos(call: Call) -> Iterator[Tagged]:
    from moto.core.resource_tagging import iter_taggable_backends

    for backend in iter_taggable_backends(call.account, call.region):
        for item in backend.iter_tagged_resources():
            if item.arn.split(":")[2] != "ec2":
                yield item.arn, dict(item.tags)


def _ec2(call: Call) -> Iterator[Tagged]:
    from moto.ec2.models import ec2_backends

    for identifier, tags in ec2_backends[call.account][call.region].tags.items():
        kind = _EC2_KINDS.get(identifier.rpartition("-")[0])
        if kind is not None:
            yield f"arn:{call.partition}:ec2:{call.region}:{call.account}:{kind}/{identifier}", dict(tags)


def _fsx(call: Call) -> Iterator[Tagged]:
    from gpufleet.lab.aws.backends.fsx_associations import associations_of

    for association in associations_of(call):
        yield association["ResourceARN"], {tag["Key"]: tag["Value"] for tag in association["Tags"]}


def _eks(call: Call) -> Iterator[Tagged]:
    from gpufleet.lab.aws.backends.eks_pod_identity import associations_of

    for association in associations_of(call):
        yield association["associationArn"], dict(association["tags"])


def _resolver(call: Call) -> Iterator[Tagged]:
    from moto.route53resolver.models import route53resolver_backends

    backend = route53resolver_backends[call.account][call.region]
    for each in (*backend.resolver_endpoints.values(), *backend.resolver_rules.values()):
        yield each.arn, dict(backend.tagger.get_tag_dict_for_resource(each.arn))


def _ram(call: Call) -> Iterator[Tagged]:
    from gpufleet.lab.aws.backends.ram_shares import tagged_shares

    yield from tagged_shares(call)
