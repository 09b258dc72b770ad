"""Scalar field types of the fleet file: text in, one type out, and errors that need no translation.

The reader hands every scalar over as text (see `nodes`), so these types decide what a number or a
switch is. They take Python values too, for programs that build a spec without a file.

Every text has a grammar: the values reach shells, inventories, ssh command lines, configuration
files of roles and requests to AWS. Patterns are Rust's (no look-around) and ECMA 262's at once; what
they cannot say (no `..` in a path) is a validator beside them. Rules of `gpufleet.checks` are
stricter where a value has to exist or to fit another.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gpufleet.kinds import ACCESS_PORT_MAX, ACCESS_PORT_MIN

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

ReservedCpus = Annotated[
    int,
    Field(
        ge=0,
        le=1024,
        description="Processors of a node kept for the system.",
        examples=[2],
        json_schema_extra={"unit": "CPUs"},
    ),
    WHOLE,
]
ReservedMemory = Annotated[
    int,
    Field(
        ge=0,
        le=4096,
        description="GiB of a node kept for the system.",
        examples=[8],
        json_schema_extra={"unit": "GiB"},
    ),
    WHOLE,
]
FEW_SITES = BeforeValidator(_few_sites)
Switch = Annotated[bool, BeforeValidator(_switch)]

_CONTROL = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNSAFE = re.compile(rf"""^\s*-|\.\./|[{_CONTROL};$`'"\\{{}}<>|&*?!]""")
_UNSEEN = re.compile(rf"(?![\n\t])[{_CONTROL}]")
_PARENT = re.compile(r"(^|/)\.\.(/|$)")


def _refusal(rule: str, message: str, remedy: str) -> PydanticCustomError:
    return PydanticCustomError("gpufleet", "{message}", {"rule": rule, "message": message, "remedy": remedy})


def _plain(value: str) -> str:
    """Refuse what a shell, a template or a configuration file could take for more than text."""
    if (unsafe := _UNSAFE.search(value)) is None:
        return value
    what = "a '-' in front" if unsafe[0].endswith("-") else ascii(unsafe[0])
    raise _refusal(
        "bad-text",
        f"the text has {what}, which shells, templates or configuration files take for more than text",
        "write letters, digits, blanks and _ . : / = + - @ # % , ( )",
    )


def _stays(value: str) -> str:
    """Refuse `..` as a part of a path: where it leads is not what is written."""
    if _PARENT.search(value):
        raise _refusal("bad-text", "the path has a part '..'", "write the path without '..'")
    return value


def _script(value: str) -> str:
    """Refuse control characters other than line ends and tabs, and characters that change a line's order."""
    if (unsafe := _UNSEEN.search(value)) is None:
        return value
    raise _refusal(
        "bad-text",
        f"the text has {unsafe[0]!a}, which readers do not see",
        "write text of printable characters, line ends and tabs",
    )


PLAIN = AfterValidator(_plain)
SCRIPT = AfterValidator(_script)
STAYS = AfterValidator(_stays)

NAME = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"
ORDERED_GROUP = rf"^({NAME[1:-1]}/)?{NAME[1:-1]}$"
BUCKET = r"^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$"
S3_PATH = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_./=+,@:-]*)?$"
ABSOLUTE = r"^/[A-Za-z0-9_./=+,@:%-]*$"
KUBERNETES = r"^1\.[0-9]{2}$"
CHANNEL = r"^[0-9]{4}\.[0-9]{2}$"
GUID = r"^0x[0-9a-f]{16}$"
PKEY = r"^0x[0-7][0-9a-f]{3}$"
DEVICE = r"^[a-z][a-z0-9_.-]{0,14}$"
ACCOUNT = r"^[a-z_][a-z0-9_-]{0,30}$"
LOGIN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$"
SSH_KEY = (
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9@.-]+) [A-Za-z0-9+/]+={0,3}"
    rf"""( [^{_CONTROL};$`'"\\{{}}]*)?$"""
)
BMC_USER = r"^[A-Za-z0-9_][A-Za-z0-9._@-]{0,31}$"
CERTIFICATE = r"^[0-9a-f]{64}$"
FINGERPRINT = r"^SHA256:[A-Za-z0-9+/]{43}$"
KEY_FINGERPRINT = r"^[0-9A-F]{40}$"
KEY_SOURCE = r"^(https?://[A-Za-z0-9\[][A-Za-z0-9._~:/@%+=,\[\]-]*|/[A-Za-z0-9_./=+,@:%-]+)$"
WEB_FOLDER = r"^https?://[A-Za-z0-9\[][A-Za-z0-9._~:/@%+=,\[\]-]*$"
WEB_ADDRESS = r"^https?://[A-Za-z0-9\[][A-Za-z0-9._~:/@%+=,\[\]?&#-]*$"
HOST_OR_ADDRESS = r"^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$"
DX_GATEWAY = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
AWS_ACCOUNT = r"^[0-9]{12}$"
IPV4 = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"
DOMAIN = r"^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*)?$"
CIDR = r"^[0-9A-Fa-f:][0-9A-Fa-f.:/]*$"
MAIL = r"^[A-Za-z0-9][A-Za-z0-9._%+@-]*$"
ARN = r"^[A-Za-z0-9][A-Za-z0-9_+=,.@:/*-]*$"
KMS_KEY = (
    r"^arn:aws[a-z-]*:kms:[a-z]{2}(-[a-z]+)+-[0-9]:[0-9]{12}:key/"
    r"(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
)
ANOMALY_MONITOR = r"^arn:aws[a-z-]*:ce::[0-9]{12}:anomalymonitor/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
SHARE_PRINCIPAL = (
    r"^([0-9]{12}|arn:aws[a-z-]*:organizations::[0-9]{12}:"
    r"(organization/o-[a-z0-9]{10,32}|ou/o-[a-z0-9]{10,32}/ou-[0-9a-z]{4,32}-[a-z0-9]{8,32}))$"
)
RESERVATION_GROUP = (
    r"^arn:aws(-[a-z]+)*:resource-groups:[a-z]{2}(-[a-z]+)+-[0-9]:[0-9]{12}:group/"
    r"([a-zA-Z0-9_.-]{1,300}|[a-zA-Z0-9_.-]{1,150}/[a-z0-9]{26})$"
)
CODE = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
CODE_WITH_BLANKS = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"
GROUP_OF_SITE = r"^[a-z0-9]([a-z0-9/-]*[a-z0-9])?$"
SOURCE = r"^[A-Za-z0-9/\[][A-Za-z0-9._:@/,\[\]+=-]*$"
NFS_EXPORT = r"^[A-Za-z0-9][A-Za-z0-9.-]*:/[A-Za-z0-9_./-]*$"
RSYNC_FOLDER = r"^[a-z_][a-z0-9_-]{0,30}@[A-Za-z0-9][A-Za-z0-9.-]*:/[A-Za-z0-9_./-]*$"
MOUNT_OPTION = r"^[A-Za-z_][A-Za-z0-9_.-]*(=[A-Za-z0-9_./:@-]+)?$"
CHAT_CHANNEL = r"^[#@]?[A-Za-z0-9][A-Za-z0-9._-]*$"
SERVICE_USER = r"^[A-Za-z0-9_][A-Za-z0-9._@+-]*$"
MIG_PROFILE = r"^[0-9A-Za-z][0-9A-Za-z.+]*$"
RESOURCE = r"^[A-Za-z0-9_][A-Za-z0-9_.:$/*@+=,-]*$"
IMAGE = r"^(ami-[0-9a-f]{8,17}|/[A-Za-z0-9_./-]{1,1011}(:[0-9]{1,9})?)$"
IMAGE_RELEASE = r"^[0-9]{8}$"
USER_DATA = r"^(#!/|#cloud-config\n|apiVersion: node\.eks\.aws/)"
ONE_LINE = rf"^[^{_CONTROL}]*[^\s{_CONTROL}][^{_CONTROL}]*$"

PATTERNS = {
    NAME: "lower-case letters, digits and '-', with a letter first and no '-' last, such as 'pretrain-1'",
    BUCKET: "3 to 63 lower-case letters, digits and '-' (a '.' breaks TLS), such as 'atlas-datasets'",
    ORDERED_GROUP: "a node group of the site, or 'site/group' of another one, such as 'usw2/pretrain'",
    S3_PATH: "a bucket and a prefix, such as 's3://atlas-datasets/train'",
    ABSOLUTE: "an absolute path of letters, digits and _ . = + , @ : % -, such as '/fsx/scratch'",
    KUBERNETES: "a minor version, such as 1.35",
    CHANNEL: "a year and a month with two digits, such as 2026.11",
    GUID: "0x and 16 hexadecimal digits in lower case, such as 0x0002c903000e0b72",
    PKEY: "a partition key without its membership bit, such as 0x0001",
    DEVICE: "the name of a device, such as mlx5_0",
    ACCOUNT: "a login name of at most 31 lower-case letters, digits, '_' and '-', such as ada",
    LOGIN: "a login name of letters, digits, '_', '.' and '-', with a letter or '_' first, such as ubuntu",
    SSH_KEY: "one line of an OpenSSH public key, such as 'ssh-ed25519 AAAA... ada@example.com'",
    BMC_USER: "a login name of a management controller, such as admin",
    CERTIFICATE: "64 hexadecimal digits in lower case: what openssl shows, without its colons",
    FINGERPRINT: "a fingerprint as ssh-keygen -l shows it, such as SHA256: and 43 characters",
    KEY_FINGERPRINT: "40 hexadecimal digits in upper case, as gpg --show-keys shows them",
    KEY_SOURCE: "a web address or an absolute path, such as /etc/ssl/doca_keyring.gpg",
    WEB_FOLDER: "a web address, such as http://mirror.example.com/rack",
    WEB_ADDRESS: "a web address, such as https://metrics.example.com/api/v1/push",
    HOST_OR_ADDRESS: "a host name or an address, such as ntp1.example.com",
    DX_GATEWAY: (
        "the ID of a Direct Connect gateway, as `aws directconnect describe-direct-connect-gateways` prints"
        " it, such as 5f294f92-bafb-4011-916d-9b0bec1f4f35"
    ),
    AWS_ACCOUNT: "the twelve digits of an AWS account, such as 111122223333",
    IPV4: "an IPv4 address, such as 203.0.113.7",
    DOMAIN: "a domain name of letters, digits, '-' and '.', such as dc1.example.com",
    CIDR: "a network address and a prefix length, such as 10.40.0.0/16",
    MAIL: "an e-mail address, such as finops@example.com",
    ARN: "an ARN, such as arn:aws:iam::111122223333:role/platform",
    KMS_KEY: (
        "the ARN of a KMS key (an alias can come to mean another key),"
        " such as arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    ),
    ANOMALY_MONITOR: (
        "the ARN of a cost anomaly monitor, as `aws ce get-anomaly-monitors` prints it,"
        " such as arn:aws:ce::111122223333:anomalymonitor/1234abcd-12ab-34cd-56ef-1234567890ab"
    ),
    SHARE_PRINCIPAL: (
        "an account id of 12 digits, or the ARN of an organization or organizational unit, such as"
        " arn:aws:organizations::111122223333:organization/o-exampleorgid"
    ),
    RESERVATION_GROUP: (
        "the ARN of a resource group, as `aws resource-groups list-groups` prints it,"
        " such as arn:aws:resource-groups:us-east-1:111122223333:group/training"
    ),
    CODE: "letters, digits, '.', '_' and '-', with a letter or digit first, such as p5.48xlarge",
    CODE_WITH_BLANKS: "letters, digits, blanks, '.', '_' and '-', with a letter or digit first, such as pg-1",
    GROUP_OF_SITE: "a site and a node group, such as use1/pretrain",
    SOURCE: "what a client mounts, such as nas01:/export/home",
    NFS_EXPORT: "an export of a host, such as nas01:/export/backups",
    RSYNC_FOLDER: "a folder of a host, such as backup@vault.example.com:/srv/dc1",
    MOUNT_OPTION: "the name of a mount option, and its value if it takes one, such as num_cores=2",
    CHAT_CHANNEL: "a channel's name or identifier, such as '#gpu-alerts'",
    SERVICE_USER: "a user name of letters, digits and . _ @ + -, such as gpufleet",
    MIG_PROFILE: "a MIG profile, such as 1g.10gb",
    RESOURCE: "the name or URN of a resource, such as atlas-dev-use1",
    IMAGE: (
        "an AMI id, or a public SSM parameter of one release, or one of your own with its version,"
        " such as ami-0123456789abcdef0"
    ),
    IMAGE_RELEASE: "the day of a release in eight digits, such as 20260714",
    USER_DATA: (
        "text whose first line says what it is: #!/..., #cloud-config, or apiVersion: node.eks.aws/v1alpha1,"
        " such as #!/bin/sh"
    ),
    ONE_LINE: "one line of text without control characters, such as 'moves to another account in May'",
}
"""What each pattern requires, in words: findings have these and not the pattern."""

RESPELLED = (NAME, ORDERED_GROUP, BUCKET, GUID, PKEY, ACCOUNT, CERTIFICATE)
"""Patterns of names of the user's own choice and of numbers: another spelling means the same."""

Name = Annotated[str, Field(pattern=NAME, max_length=63)]
OrderedGroup = Annotated[str, Field(pattern=ORDERED_GROUP, max_length=127)]
HostName = Name
BucketName = Annotated[str, Field(pattern=BUCKET)]
S3Path = Annotated[str, Field(pattern=S3_PATH, max_length=1024), STAYS]
AbsolutePath = Annotated[str, Field(pattern=ABSOLUTE, max_length=255), STAYS]
AccessPort = Annotated[
    int, Field(ge=ACCESS_PORT_MIN, le=ACCESS_PORT_MAX, json_schema_extra={"unit": "port"}), WHOLE
]
NodeCount = Annotated[int, Field(ge=0, le=100_000, json_schema_extra={"unit": "nodes"}), WHOLE]
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
LoginName = Annotated[str, Field(pattern=LOGIN)]
SshKey = Annotated[str, Field(pattern=SSH_KEY, max_length=4096)]
Fingerprint = Annotated[str, Field(pattern=FINGERPRINT)]
BmcUser = Annotated[str, Field(pattern=BMC_USER)]
Certificate = Annotated[str, Field(pattern=CERTIFICATE)]
KeyFingerprint = Annotated[
    str,
    Field(pattern=KEY_FINGERPRINT),
    WithJsonSchema({"type": ["string", "integer"], "pattern": KEY_FINGERPRINT}),
]
KeySource = Annotated[str, Field(pattern=KEY_SOURCE, max_length=1024), STAYS]
WebFolder = Annotated[str, Field(pattern=WEB_FOLDER, max_length=1024)]
PackageMirror = Annotated[
    WebFolder | None,
    Field(
        description="Where packages come from instead of the vendors' own repositories.",
        examples=["http://mirror.example.com/rack"],
    ),
]
WebAddress = Annotated[str, Field(pattern=WEB_ADDRESS, max_length=1024)]
HostOrAddress = Annotated[str, Field(pattern=HOST_OR_ADDRESS, max_length=253)]
Domain = Annotated[str, Field(pattern=DOMAIN, max_length=253)]
DirectConnectGateway = Annotated[str, Field(pattern=DX_GATEWAY)]
# Twelve digits are text here and a number to a YAML editor.
AwsAccount = Annotated[
    str, Field(pattern=AWS_ACCOUNT), WithJsonSchema({"type": ["string", "integer"], "pattern": AWS_ACCOUNT})
]
Ipv4 = Annotated[str, Field(pattern=IPV4)]
Cidr = Annotated[str, Field(pattern=CIDR, max_length=64)]
MailAddress = Annotated[str, Field(pattern=MAIL, max_length=254)]
Arn = Annotated[str, Field(pattern=ARN, max_length=2048)]
AnomalyMonitor = Annotated[str, Field(pattern=ANOMALY_MONITOR)]
KmsKey = Annotated[str, Field(pattern=KMS_KEY)]
# An account id is text here and a number to a YAML editor.
SharePrincipal = Annotated[
    str,
    Field(pattern=SHARE_PRINCIPAL),
    WithJsonSchema({"type": ["string", "integer"], "pattern": SHARE_PRINCIPAL}),
]
ReservationGroupArn = Annotated[str, Field(pattern=RESERVATION_GROUP)]
Code = Annotated[str, Field(pattern=CODE, min_length=1, max_length=128)]
PlacementGroupName = Annotated[str, Field(pattern=CODE_WITH_BLANKS, max_length=255)]
SiteGroupName = Annotated[str, Field(pattern=GROUP_OF_SITE, max_length=127)]
MountSource = Annotated[str, Field(pattern=SOURCE, max_length=1024), STAYS]
NfsExport = Annotated[str, Field(pattern=NFS_EXPORT, max_length=1024), STAYS]
RsyncFolder = Annotated[str, Field(pattern=RSYNC_FOLDER, max_length=1024), STAYS]
MountOption = Annotated[str, Field(pattern=MOUNT_OPTION, max_length=255), STAYS]
ChatChannel = Annotated[str, Field(pattern=CHAT_CHANNEL, max_length=80)]
ServiceUser = Annotated[str, Field(pattern=SERVICE_USER, max_length=128)]
MigProfile = Annotated[str, Field(pattern=MIG_PROFILE, max_length=32)]
ResourceName = Annotated[str, Field(pattern=RESOURCE, max_length=1024)]
LabelKey = Annotated[str, Field(max_length=512), PLAIN]

# A tag or label `4711` or `true` is the text "4711" or "true"; editors may take it for a number.
LabelValue = Annotated[
    str, Field(max_length=512), PLAIN, WithJsonSchema({"type": ["string", "number", "boolean"]})
]
ImageReference = Annotated[str, Field(pattern=IMAGE, max_length=1024), STAYS]
ImageRelease = Annotated[
    str,
    Field(pattern=IMAGE_RELEASE),
    WithJsonSchema({"type": ["string", "integer"], "pattern": IMAGE_RELEASE}),
]
UserData = Annotated[str, Field(pattern=USER_DATA, max_length=16_384), SCRIPT]
PlainText = Annotated[str, Field(min_length=1, max_length=255), PLAIN]
TagKey = Annotated[str, Field(max_length=512), PLAIN]
FreeText = Annotated[str, Field(pattern=ONE_LINE, max_length=255)]
"""What only people read; no shell, inventory or configuration file gets it."""
