"""Properties that must have a certain value: what is said where they have none, or nobody knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpufleet.policy.context import PolicyContext
from gpufleet.policy.rule import Violation
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack

KEYS = (
    "aws:kms/key:Key",
    "aws:kms/alias:Alias",
    "aws:kms/externalKey:ExternalKey",
    "aws:kms/replicaKey:ReplicaKey",
    "aws:kms/replicaExternalKey:ReplicaExternalKey",
)
"""What a customer-managed key is referred to by."""


def is_on(value: object) -> bool:
    """Whether a flag is set; some of the provider's flags are strings."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def is_off(value: object) -> bool:
    """Whether a flag is explicitly not set."""
    return value is False or (isinstance(value, str) and value.strip().lower() == "false")


def require(
    resource: Resource, path: str, accepts: Callable[[object], bool], rule: str, remedy: str
) -> Iterator[Violation]:
    """A violation unless the property is known, is accepted, and is not under `ignoreChanges`.

    `accepts` gets None for a property that is not set; `rule` ends the sentence "<path> is <value>, and".
    """
    value = resource.get(path)
    if is_unknown(value) or not accepts(value):
        yield Violation(
            f"{path} is {resource.show(path)}, and {rule}",
            remedy,
            urn=resource.urn,
            prop=path,
            unknown=is_unknown(value),
        )
    elif resource.ignores(path):
        yield ignored(resource, path, rule)


def ignored(resource: Resource, path: str, rule: str) -> Violation:
    """What is said of a property that may be changed behind the program's back."""
    return Violation(
        f"{path} is under ignoreChanges, and {rule}: what is changed outside the program would stay",
        f"take {path} out of ignoreChanges",
        urn=resource.urn,
        prop=path,
    )


def require_key(
    stack: Stack, resource: Resource, path: str, rule: str, remedy: str, *, managed_by_aws: bool = False
) -> Iterator[Violation]:
    """A violation unless the property names a KMS key: a customer's, or with `managed_by_aws` any.

    A key's ARN is not known before the key exists; then the property has to be computed from a key.
    """
    value = resource.get(path)
    if is_unknown(value):
        named = bool(stack.references(resource, path.partition(".")[0].partition("[")[0], types=KEYS))
    else:
        named = isinstance(value, str) and bool(value.strip())
        named = named and (managed_by_aws or "alias/aws/" not in str(value).lower())
    if not named:
        yield Violation(
            f"{path} is {resource.show(path)}, and {rule}",
            remedy,
            urn=resource.urn,
            prop=path,
            unknown=is_unknown(value),
        )
    elif resource.ignores(path):
        yield ignored(resource, path, rule)


def region_of(resource: Resource, shared: PolicyContext) -> object:
    """The region of a resource: its own property, its provider's, or the stack's."""
    own = resource.get("region")
    if own is not None:
        return own
    provider = resource.provider.props.get("region") if resource.provider is not None else None
    return provider if provider is not None else shared.region
