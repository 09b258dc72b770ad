"""`gpufleet image`: images of Slurm nodes in the cloud, built by the roles that configure racks."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.configure import SshConfig
from gpufleet.cli.console import emit_json, note, out
from gpufleet.cli.state_repair import Yes, confirm
from gpufleet.errors import CloudError

app = new_app(help="Build images of Slurm nodes in the cloud.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Images of Slurm nodes in the cloud."""


@app.command()
def build(
    environment: Environment,
    site: Annotated[str, typer.Option("--site", help="A cloud site with Slurm; default: the only one.")] = "",
    group: Annotated[
        str, typer.Option("--group", help="The node group to build for; default: the site's first.")
    ] = "",
    base: Annotated[
        str,
        typer.Option(
            "--from",
            help="The image to build on: an AMI id, an SSM parameter with one, or the exact name of one of "
            "Amazon's; default: AWS's image at the release that the fleet file or its channel locks.",
        ),
    ] = "",
    user: Annotated[
        str, typer.Option("--user", help="The login user of that image; on Debian it is admin.")
    ] = "ubuntu",
    direct: Annotated[
        bool,
        typer.Option("--direct", help="Connect to the private address instead of through Session Manager."),
    ] = False,
    instance_type: Annotated[
        str, typer.Option("--instance-type", help="What builds it; default: m7i.large, or m7g.large on Arm.")
    ] = "",
    discard: Annotated[
        bool, typer.Option("--discard", help="Terminate the instances of the site's other builds first.")
    ] = False,
    ssh_config: SshConfig = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Build an image of Slurm nodes: launch an instance, configure it, make an image of it, terminate it.

    The instance gets the subnet, security groups, profile and disk encryption of the node group. The
    environment stays as it is: write the printed id as `image` of node groups.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from gpufleet.cli.image_build import Build

    wanted = Build(
        environment=environment,
        site=site,
        group=group,
        base=base,
        user=user,
        direct=direct,
        discard=discard,
        instance_type=instance_type,
        ssh_config=ssh_config,
        quiet=json,
    )
    try:
        _ = wanted.launch
        confirm(wanted.question, yes=yes, json=json, what="an instance that costs money")
        image = wanted.run()
    except (BotoCoreError, ClientError) as error:
        raise CloudError(
            f"the image of {wanted.cloud_site.site} was not built: {error}",
            remedy="docs/guide/cloud_slurm.md has the rights that a build needs; run again",
        ) from None
    if json:
        emit_json({"image": image, "name": wanted.name, "base": wanted.base_image.id, **wanted.where})
        return
    out.print(f"{image}: {wanted.name}, on {wanted.base_image.label}", markup=False, soft_wrap=True)
    note(
        f"write `image: {image}` to node groups of {wanted.cloud_site.site}, then run"
        f" `gpufleet up {environment}`"
    )
