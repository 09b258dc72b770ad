"""Generated names of resources, in the form of the real provider."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from gpufleet.lab.aws.provider.handler import AutoName
from gpufleet.lab.aws.provider.wire import Props

_RANDOM_DIGITS = 7


def auto_name(rule: AutoName, logical: str, seed: bytes) -> str:
    """`<logical name>-<7 hex digits>` within the rule's length; the digits follow from the seed."""
    digits = hashlib.sha256(seed + logical.encode() if seed else os.urandom(16)).hexdigest()[:_RANDOM_DIGITS]
    room = rule.max_length - len(rule.prefix) - _RANDOM_DIGITS - 1
    stem = logical.lower() if rule.lower else logical
    return f"{rule.prefix}{stem[:room]}-{digits}"


def apply(
    rule: AutoName | None, inputs: Props, old: Mapping[str, Any], logical: str, seed: bytes
) -> list[str]:
    """Set missing names in `inputs`; return the properties that were set.

    A name that was generated before is kept for the lifetime of the resource.
    """
    if rule is None or inputs.get(rule.prop) is not None or inputs.get(f"{rule.prop}Prefix") is not None:
        return []
    kept = old.get(rule.prop) if rule.prop in (old.get("__defaults") or ()) else None
    inputs[rule.prop] = kept or auto_name(rule, logical, seed)
    return [rule.prop]
