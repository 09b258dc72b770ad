"""`gpufleet eks-token`: the credential plugin of kubeconfigs, which opens the way to private endpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli.console import emit_text
from gpufleet.errors import ExitCode, InputError


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command(name="eks-token")(eks_token)


def eks_token(
    cluster: Annotated[str, typer.Option("--cluster-name", help="The name of the EKS cluster.")],
    region: Annotated[str, typer.Option("--region", help="Its region.")],
    profile: Annotated[str | None, typer.Option("--profile", help="An AWS profile.")] = None,
    assume_roles: Annotated[
        str | None,
        typer.Option("--assume-roles", help="Roles to assume in turn, as JSON: the stack's aws:assumeRoles."),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="The private endpoint, to reach through a node.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1024, max=65535, help="The local port that leads to it.")
    ] = None,
) -> int:
    """Print a token for the Kubernetes API of a cluster. Kubeconfigs run it; you do not have to.

    With --endpoint it first opens a port-forward of Session Manager through a node of the cluster, which ends
    with the process that ran this command.
    """
    import datetime as dt
    import os

    from gpufleet.eks_access.forward import ensure_forward
    from gpufleet.eks_access.identity import AwsIdentity, read_roles
    from gpufleet.eks_access.session import SessionTarget
    from gpufleet.eks_access.token import exec_credential

    if (endpoint is None) != (port is None):
        raise InputError("--endpoint and --port belong together", remedy="give both, or neither")
    identity = AwsIdentity(profile, read_roles(assume_roles))
    if endpoint is not None and port is not None:
        # client-go runs the command itself: its parent is the provider or kubectl.
        ensure_forward(SessionTarget(cluster, region, endpoint, port, identity), os.getppid())
    emit_text(exec_credential(identity.session(region), cluster, region, dt.datetime.now(dt.UTC)) + "\n")
    return int(ExitCode.DONE)
