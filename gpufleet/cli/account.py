"""Check before a run on an AWS account: valid credentials, enabled regions, and programs of this machine.

It uses GetCallerIdentity, which needs no permissions
(https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html). A region that the account
has not enabled rejects the credentials.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpufleet.eks_access.programs import PLUGIN, require_programs
from gpufleet.errors import CloudError, GpufleetError, InputError

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError

    from gpufleet.workspace import Workspace

FALLBACK_REGION = "us-east-1"
_CONNECT_S, _READ_S = 5, 10


def stack_session(workspace: Workspace, environment: str, region: str, **client: Any) -> Any:
    """Return a boto3 session of the profile and roles in an environment's stack settings.

    `client` are options of the STS client that assumes the roles.
    """
    from gpufleet.aws_session import open_session

    profile = workspace.stack_config(environment, plain_only=True).get("aws:profile")
    return open_session(profile, region, workspace.assumed_roles(environment), **client)


def require_account(
    regions: Iterable[str] = (), profile: str | None = None, forwarded: Iterable[str] = ()
) -> str:
    """Return the account of the credentials, masked: `********9012`.

    Raises InputError for missing or rejected credentials, for one of `regions` that the account has not
    enabled, and without Session Manager's plugin, if the clusters of sites (`forwarded`) are reached with it.
    Raises CloudError if AWS does not respond.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries={"total_max_attempts": 2})

    def identity(session: Any, region: str) -> str:
        return str(session.client("sts", region_name=region, config=config).get_caller_identity()["Account"])

    home = FALLBACK_REGION
    try:
        session = boto3.Session(profile_name=profile)
        # Pulumi's provider reads AWS_REGION, which boto3 does not.
        home = os.environ.get("AWS_REGION") or session.region_name or home
        if session.get_credentials() is None:
            raise InputError("no AWS credentials were found", remedy=_REMEDY)
        account = identity(session, home)
    except (BotoCoreError, ClientError) as error:
        raise _refused(error, home) from None
    for region in dict.fromkeys(regions):
        try:
            _ = region == home or identity(session, region)
        except ClientError as error:
            raise InputError(
                f"the account ending in {account[-4:]} cannot use region {region} ({_code(error)})",
                remedy=f"enable it (`aws account enable-region --region-name {region}`), or use another "
                "region in the fleet file",
            ) from None
        except BotoCoreError as error:
            raise _refused(error, region) from None
    for site in forwarded:
        require_programs(PLUGIN, site=site)
    return "*" * (len(account) - 4) + account[-4:]


_REMEDY = "set AWS_PROFILE, run `aws sso login`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def _refused(error: BotoCoreError | ClientError, region: str) -> GpufleetError:
    from botocore.exceptions import ConnectionError as NoConnectionError
    from botocore.exceptions import HTTPClientError

    if isinstance(error, (NoConnectionError, HTTPClientError)):
        return CloudError(
            f"AWS does not respond in region {region}: {error}",
            remedy="check the network, its proxy, and the region (AWS_REGION or the profile)",
        )
    return InputError(f"AWS rejected the credentials: {error}", remedy=_REMEDY)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "refused"))
