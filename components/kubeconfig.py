"""Kubeconfigs of EKS clusters. None contains a token: a command gets one at each use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class TokenCommandArgs:
    """The command with which a kubeconfig gets tokens; without arguments the AWS CLI with the identity of its
    environment. The arguments in `{region}` and `{cluster}` stand for the cluster's own.
    """

    command: str = "aws"
    arguments: Sequence[str] = ("--region", "{region}", "eks", "get-token", "--cluster-name", "{cluster}")

    def arguments_for(self, region: str, cluster_name: str) -> list[str]:
        """Return the arguments for a cluster."""
        values = {"{region}": region, "{cluster}": cluster_name}
        return [values.get(each, each) for each in self.arguments]


def aws_token_command(*, profile: str | None = None, role_arn: str | None = None) -> TokenCommandArgs:
    """Return the command of the AWS CLI for a profile, and a role that it assumes."""
    given = ["--profile", profile] if profile else []
    role = ["--role-arn", role_arn] if role_arn else []
    before, after = ["--region", "{region}"], ["eks", "get-token", "--cluster-name", "{cluster}"]
    return TokenCommandArgs(arguments=[*before, *given, *after, *role])


def kubeconfig(
    cluster_name: str,
    endpoint: str,
    certificate_authority: str,
    region: str,
    token: TokenCommandArgs | None = None,
    *,
    port: int | None = None,
) -> str:
    """Return a kubeconfig, as JSON, which every YAML parser reads.

    With `port`, the API is reached through that port of the same machine, still under the endpoint's name in
    its certificate. Whoever uses the kubeconfig opens the port, or `token` does.
    """
    command = token or TokenCommandArgs()
    cluster: dict[str, Any] = {"server": endpoint, "certificate-authority-data": certificate_authority}
    if port is not None:
        cluster |= {
            "server": f"https://{LOOPBACK}:{port}",
            "tls-server-name": host_of(endpoint),
        }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster_name, "cluster": cluster}],
            "users": [
                {
                    "name": cluster_name,
                    "user": {
                        "exec": {
                            "apiVersion": "client.authentication.k8s.io/v1beta1",
                            "command": command.command,
                            "args": command.arguments_for(region, cluster_name),
                            "interactiveMode": "Never",
                        }
                    },
                }
            ],
            "contexts": [{"name": cluster_name, "context": {"cluster": cluster_name, "user": cluster_name}}],
            "current-context": cluster_name,
        }
    )


def host_of(endpoint: str) -> str:
    """Return the host name of an endpoint (`https://ABC.gr7.us-east-1.eks.amazonaws.com`)."""
    return urlsplit(endpoint).hostname or endpoint
