"""Omits private keys that KMS does not have: moto computes an RSA pair for every key.

That takes most of the time to create a symmetric key, and a stack has several.
"""

from __future__ import annotations

from typing import Any

from moto.kms import models
from moto.kms.utils import KeySpec
from moto.kms.utils import generate_private_key as generate

ASYMMETRIC = frozenset({*KeySpec.rsa_key_specs(), *KeySpec.ecc_key_specs()})


def private_key(key_spec: str) -> Any:
    """Return the private key of an asymmetric key; None for others."""
    return generate(key_spec) if key_spec in ASYMMETRIC else None


models.generate_private_key = private_key
