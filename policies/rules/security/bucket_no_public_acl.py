"""No ACL of a bucket or an object grants public access."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._buckets import ACL
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import BUCKETS

OBJECTS = (
    "aws:s3/bucketObject:BucketObject",
    "aws:s3/bucketObjectv2:BucketObjectv2",
    "aws:s3/objectCopy:ObjectCopy",
)
PRIVATE = ("private", "bucket-owner-read", "bucket-owner-full-control", "log-delivery-write")
_EVERYBODY = ("/groups/global/allusers", "/groups/global/authenticatedusers")
_GRANTS = {
    **dict.fromkeys(BUCKETS, ("grants", "uri")),
    **dict.fromkeys(ACL, ("accessControlPolicy.grants", "grantee.uri")),
    "aws:s3/objectCopy:ObjectCopy": ("grants", "uri"),
}


@resource_rule(
    "bucket-no-public-acl",
    group="security",
    title="No ACL grants public access",
    why="public-read lets everyone read weights and data, public-read-write lets everyone fill the bucket at "
    "your cost, and authenticated-read includes every AWS customer.",
    fix="Remove `acl`, and grant access by policies.",
    severity="critical",
    framework=fsbp("S3.2"),
    types=(*BUCKETS, *ACL, *OBJECTS),
    passes=Example(({"type": ACL[0], "props": {"acl": "private"}},)),
    fails=Example(({"type": ACL[0], "props": {"acl": "public-read"}},)),
)
def bucket_no_public_acl(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check canned ACLs and single grants of buckets and objects."""
    yield from require(
        resource,
        "acl",
        lambda value: value is None or (isinstance(value, str) and value.strip().lower() in PRIVATE),
        "no ACL grants public access",
        "leave acl out",
    )
    if resource.type not in _GRANTS:
        return
    grants, grantee = _GRANTS[resource.type]
    for path, _ in resource.items(grants):
        uri = resource.get(f"{path}.{grantee}")
        if is_unknown(uri) or (isinstance(uri, str) and uri.strip().lower().endswith(_EVERYBODY)):
            yield Violation(
                f"{path}.{grantee} is {resource.show(f'{path}.{grantee}')}, and no ACL may grant anything to "
                "everyone",
                "remove the grant",
                prop=f"{path}.{grantee}",
                unknown=is_unknown(uri),
            )
