"""The caller of a run: its account, and the principal that IAM can simulate."""

from __future__ import annotations

import re

from msgspec import Struct

from gpufleet.account.reading import Clients, NotCheckedError, error_code, read

_ASSUMED = re.compile(r"^arn:([\w-]+):sts::(\d{12}):assumed-role/([^/]+)/")
_ANY = re.compile(r"^arn:([\w-]+):(iam|sts)::(\d{12}):(.+)$")


class Caller(Struct, frozen=True):
    """An account, its partition, and the ARN of the caller's user or role; `unclear` says why it has none."""

    account: str
    partition: str
    principal: str
    unclear: str = ""

    @property
    def masked(self) -> str:
        """The account for output: `********9012`."""
        return "*" * (len(self.account) - 4) + self.account[-4:]


def find_caller(clients: Clients, region: str) -> Caller:
    """Return the caller. Raises NotCheckedError if AWS does not answer.

    GetCallerIdentity needs no permission, and its ARN of an assumed role has no path: GetRole has the whole.
    """
    from botocore.exceptions import ClientError

    try:
        answer = read(clients("sts", region), "get_caller_identity")
    except ClientError as error:
        raise NotCheckedError(f"STS: GetCallerIdentity is refused ({error_code(error)})") from None
    arn, account = str(answer["Arn"]), str(answer["Account"])
    parts = _ANY.match(arn)
    partition = parts[1] if parts else "aws"
    assumed = _ASSUMED.match(arn)
    if assumed is not None:
        return _of_role(clients, region, account, partition, assumed[3])
    if parts is None or not parts[4].startswith("user/"):
        what = "the root user" if arn.endswith(":root") else arn.rpartition(":")[2]
        return Caller(account, partition, "", f"IAM cannot simulate the permissions of {what}")
    return Caller(account, partition, arn.replace(":sts:", ":iam:"))


def _of_role(clients: Clients, region: str, account: str, partition: str, name: str) -> Caller:
    from botocore.exceptions import ClientError

    try:
        role = read(clients("iam", region), "get_role", RoleName=name)["Role"]
    except (NotCheckedError, ClientError) as error:
        return Caller(account, partition, "", f"the ARN of the role {name} cannot be read ({error})")
    return Caller(account, partition, str(role["Arn"]))
