"""Keys without a private half where KMS has none: moto computes an RSA pair for every key.

That is most of the time that a symmetric key takes to be made, and a stack has one for each purpose.
"""

from __future__ import annotations

from typing import Any

from moto.kms import models
from moto.kms.utils import KeySpec
from moto.kms.utils import generate_private_key as generate

ASYMMETRIC = frozenset({*KeySpec.rsa_key_specs(), *KeySpec.ecc_key_specs()})


def private_key(key_spec: str) -> Any:
    """The private key of an asymmetric key; None for any other."""
    return generate(key_spec) if key_spec in ASYMMETRIC else None


models.generate_private_key = private_key
