"""KMS keys with and without a private half."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.lab.aws.backends.kms_private_keys import private_key


@pytest.mark.parametrize("spec", ["SYMMETRIC_DEFAULT", "HMAC_256"])
def test_symmetric_key_has_no_private_key(spec: str) -> None:
    assert private_key(spec) is None


def test_symmetric_key_encrypts(aws: Any) -> None:
    key_id = aws("kms").create_key()["KeyMetadata"]["KeyId"]
    blob = aws("kms").encrypt(KeyId=key_id, Plaintext=b"secret")["CiphertextBlob"]
    assert aws("kms").decrypt(CiphertextBlob=blob)["Plaintext"] == b"secret"


def test_asymmetric_key_signs(aws: Any) -> None:
    made = aws("kms").create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")
    wanted = {"KeyId": made["KeyMetadata"]["KeyId"], "SigningAlgorithm": "RSASSA_PSS_SHA_256"}
    signature = aws("kms").sign(Message=b"text", **wanted)["Signature"]
    assert aws("kms").verify(Message=b"text", Signature=signature, **wanted)["SignatureValid"]
