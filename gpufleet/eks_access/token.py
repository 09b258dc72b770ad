"""Tokens of EKS: a signed request to STS GetCallerIdentity, with which the cluster asks who it is."""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import Any

from gpufleet.errors import InputError

_PREFIX = "k8s-aws-v1."
_CLUSTER_HEADER = "x-k8s-aws-id"
_SIGNED_FOR_S = 60
_VALID = dt.timedelta(minutes=14)
"""The authenticator takes a token for 15 minutes (aws-iam-authenticator, README, "API authorization from
outside a cluster"); a minute less, so that none expires on its way."""


def exec_credential(session: Any, cluster: str, region: str, now: dt.datetime) -> str:
    """Return the ExecCredential that client-go reads from a credential plugin, as JSON.

    Raises InputError without credentials.
    """
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "kind": "ExecCredential",
            "status": {
                "expirationTimestamp": (now + _VALID).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "token": eks_token(session, cluster, region),
            },
        }
    )


def eks_token(session: Any, cluster: str, region: str) -> str:
    """Return a token for the cluster: the URL of a signed request, in base64."""
    from botocore.signers import RequestSigner

    credentials = session.get_credentials()
    if credentials is None:
        raise InputError("no AWS credentials were found", remedy="set AWS_PROFILE, or run `aws sso login`")
    client = session.client("sts", region_name=region)
    signer = RequestSigner(
        client.meta.service_model.service_id, region, "sts", "v4", credentials, session.events
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{client.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {_CLUSTER_HEADER: cluster},
            "context": {},
        },
        region_name=region,
        expires_in=_SIGNED_FOR_S,
        operation_name="",
    )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
