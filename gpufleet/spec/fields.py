"""Scalar field types of the fleet file: text in, one type out, and errors that need no translation.

The reader hands every scalar over as text (see `nodes`), so these types decide what a number or a
switch is. They take Python values too, for programs that build a spec without a file.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

MOST_SITES = 100

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_SWITCH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise PydanticCustomError("whole_number", "not a whole number")


def _decimal(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    raise PydanticCustomError("decimal_number", "not a number")


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _SWITCH:
        return _SWITCH[value]
    raise PydanticCustomError("flag", "neither true nor false")


def _few_sites(value: Any) -> Any:
    """Refuse a long list before its items are looked at: each may expand to 10,000 hosts."""
    if isinstance(value, (list, tuple)) and len(value) > MOST_SITES:
        raise PydanticCustomError("too_long", "too many", {"max_length": MOST_SITES})
    return value


# These two stand last in `Annotated`: bounds in front of them get into the JSON schema as they are.
WHOLE = BeforeValidator(_whole)
DECIMAL = BeforeValidator(_decimal)
FEW_SITES = BeforeValidator(_few_sites)
Switch = Annotated[bool, BeforeValidator(_switch)]
Text = Annotated[str, Field(min_length=1, max_length=255)]

# A tag or label `4711` or `true` is the text "4711" or "true"; editors may take it for a number.
Word = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]

NAME = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"
BUCKET = r"^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$"
S3_PATH = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[!-~]*)?$"
ABSOLUTE = r"^/[^\s]*$"
KUBERNETES = r"^1\.[0-9]{2}$"
CHANNEL = r"^[0-9]{4}\.[0-9]{2}$"
GUID = r"^0x[0-9a-f]{16}$"
PKEY = r"^0x[0-7][0-9a-f]{3}$"
DEVICE = r"^[a-z][a-z0-9_.-]{0,14}$"
ACCOUNT = r"^[a-z_][a-z0-9_-]{0,30}$"
SSH_KEY = (
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9@.-]+) [A-Za-z0-9+/]+={0,3}( [^\r\n]*)?$"
)
BMC_USER = r"^[A-Za-z0-9._@-]{1,32}$"
CERTIFICATE = r"^[0-9a-f]{64}$"
FINGERPRINT = r"^SHA256:[A-Za-z0-9+/]{43}$"
WEB_FOLDER = r"^https?://[^\s/][^\s]*$"
HOST_OR_ADDRESS = r"^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$"

PATTERNS = {
    NAME: "lower-case letters, digits and '-', with a letter first and no '-' last, such as 'pretrain-1'",
    BUCKET: "3 to 63 lower-case letters, digits and '-' (a '.' breaks TLS), such as 'atlas-datasets'",
    S3_PATH: "a bucket and a prefix, such as 's3://atlas-datasets/train'",
    ABSOLUTE: "an absolute path without blanks, such as '/fsx/scratch'",
    KUBERNETES: "a minor version, such as 1.35",
    CHANNEL: "a year and a month with two digits, such as 2026.11",
    GUID: "0x and 16 hexadecimal digits in lower case, such as 0x0002c903000e0b72",
    PKEY: "a partition key without its membership bit, such as 0x0001",
    DEVICE: "the name of a device, such as mlx5_0",
    ACCOUNT: "a login name of at most 31 lower-case letters, digits, '_' and '-', such as ada",
    SSH_KEY: "one line of an OpenSSH public key, such as 'ssh-ed25519 AAAA... ada@example.com'",
    BMC_USER: "a login name of a management controller, such as admin",
    CERTIFICATE: "64 hexadecimal digits in lower case: what openssl shows, without its colons",
    FINGERPRINT: "a fingerprint as ssh-keygen -l shows it, such as SHA256: and 43 characters",
    WEB_FOLDER: "a web address, such as http://mirror.example.com/rack",
    HOST_OR_ADDRESS: "a host name or an address, such as ntp1.example.com",
}
"""What each pattern wants, in words: findings say these and not the pattern."""

Name = Annotated[str, Field(pattern=NAME, max_length=63)]
BucketName = Annotated[str, Field(pattern=BUCKET)]
S3Path = Annotated[str, Field(pattern=S3_PATH, max_length=1024)]
AbsolutePath = Annotated[str, Field(pattern=ABSOLUTE, max_length=255)]
NodeCount = Annotated[int, Field(ge=0, le=100_000), WHOLE]
# `1.35` is text here and a number to a YAML editor.
KubernetesVersion = Annotated[
    str, Field(pattern=KUBERNETES), WithJsonSchema({"type": ["string", "number"], "pattern": KUBERNETES})
]
SoftwareChannel = Annotated[
    str, Field(pattern=CHANNEL), WithJsonSchema({"type": ["string", "number"], "pattern": CHANNEL})
]
# Hexadecimal numbers are text here and numbers to a YAML editor.
Guid = Annotated[str, Field(pattern=GUID), WithJsonSchema({"type": ["string", "integer"], "pattern": GUID})]
PartitionKey = Annotated[
    str, Field(pattern=PKEY), WithJsonSchema({"type": ["string", "integer"], "pattern": PKEY})
]
DeviceName = Annotated[str, Field(pattern=DEVICE)]
AccountName = Annotated[str, Field(pattern=ACCOUNT)]
SshKey = Annotated[str, Field(pattern=SSH_KEY, max_length=4096)]
Fingerprint = Annotated[str, Field(pattern=FINGERPRINT)]
BmcUser = Annotated[str, Field(pattern=BMC_USER)]
Certificate = Annotated[str, Field(pattern=CERTIFICATE)]
WebFolder = Annotated[str, Field(pattern=WEB_FOLDER, max_length=1024)]
HostOrAddress = Annotated[str, Field(pattern=HOST_OR_ADDRESS, max_length=253)]
