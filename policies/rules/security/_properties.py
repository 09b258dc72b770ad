"""Checks of properties that must have a certain value, and messages for missing and unknown values."""

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
"""Properties that refer to a customer-managed key."""


def is_on(value: object) -> bool:
    """Return whether a flag is set; some of the provider's flags are strings."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def is_off(value: object) -> bool:
    """Return whether a flag is explicitly not set."""
    return value is False or (isinstance(value, str) and value.strip().lower() == "false")


def require(
    resource: Resource, path: str, accepts: Callable[[object], bool], rule: str, remedy: str
) -> Iterator[Violation]:
    """Yield a violation unless the property is known, accepted, and not under `ignoreChanges`.

    `accepts` gets None for a property that is not set; `rule` completes "<path> is <value>, and".
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
    """Return the violation of a property that can be changed outside the program."""
    return Violation(
        f"{path} is under ignoreChanges, and {rule}: a change outside the program would stay",
        f"remove {path} from ignoreChanges",
        urn=resource.urn,
        prop=path,
    )


def require_key(
    stack: Stack, resource: Resource, path: str, rule: str, remedy: str, *, managed_by_aws: bool = False
) -> Iterator[Violation]:
    """Yield a violation unless the property refers to a KMS key: a customer's, or with `managed_by_aws` any.

    A key's ARN is not known before the key exists; then the property must be computed from a key.
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
    """Return the region of a resource: from its own property, its provider, or the stack."""
    own = resource.get("region")
    if own is not None:
        return own
    provider = resource.provider.props.get("region") if resource.provider is not None else None
    return provider if provider is not None else shared.region
