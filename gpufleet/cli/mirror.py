"""`gpufleet mirror`: images and charts for rack sites without a way to the internet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, err, errors, note, out
from gpufleet.errors import ExitCode

if TYPE_CHECKING:
    from gpufleet.plan.models import FleetPlan
    from gpufleet.racks.mirror.needs import Needs

app = new_app(help="List, pack and check the images and charts of rack sites with Kubernetes.")

Site = Annotated[str, typer.Option("--site", help="One rack site; default: all with Kubernetes.")]


@app.callback()
def _group() -> None:
    """Images and charts for sites without a way to the internet."""


@app.command()
def images(
    environment: Environment,
    site: Site = "",
    pack: Annotated[
        Path | None,
        typer.Option("--pack", metavar="DIR", help="Copy them into this folder; a second run continues."),
    ] = None,
    json: Json = False,
) -> int:
    """List the container images and Helm charts that the rack sites pull, or pack them for the way there.

    --pack needs skopeo, which uses the credentials of `skopeo login`. Exit code 4: something could not be
    copied.
    """
    from gpufleet.racks.mirror.pack import pack as run_pack
    from gpufleet.report.mirror_tables import needs_table
    from gpufleet.report.tables import print_table

    plan, needs = _needs(environment, site)
    document = {
        "environment": plan.environment,
        "channel": plan.software_channel,
        "images": [image.to_json() for image in needs.images],
        "charts": [chart.to_json() for chart in needs.charts],
    }
    if pack is None:
        if json:
            emit_json(document)
            return int(ExitCode.DONE)
        print_table(needs_table(needs), out)
        out.print(f"{len(needs.images)} images, {len(needs.charts)} charts")
        for text in sorted({f"* {image.component}: {image.note}" for image in needs.images if image.note}):
            note(text)
        return int(ExitCode.DONE)
    total, done = len(needs.images) + len(needs.charts), 0

    def step(name: str, state: str) -> None:
        nonlocal done
        done += 1
        err.print(f"[{done} of {total}] {name}: {state}", markup=False, soft_wrap=True)

    result = run_pack(needs, pack, step)
    for name, reason in result.failed.items():
        errors.print(f"{name}: {reason}", markup=False, soft_wrap=True)
    if json:
        emit_json(
            document
            | {"folder": str(pack), "copied": list(result.copied), "complete": list(result.complete)}
            | {"failed": result.failed}
        )
    else:
        out.print(
            f"{pack}: {len(result.copied)} copied, {len(result.complete)} complete before, "
            f"{len(result.failed)} failed",
            markup=False,
            soft_wrap=True,
        )
        if not result.failed:
            note(
                "To load it: skopeo sync --all --preserve-digests --scoped --src dir --dest docker "
                f"{pack}/images REGISTRY, and copy {pack}/charts to package_mirror"
            )
    return int(ExitCode.CLOUD_FAILURE if result.failed else ExitCode.DONE)


@app.command()
def check(
    environment: Environment,
    site: Site = "",
    registry: Annotated[
        str,
        typer.Option(
            "--registry", metavar="URL", help="Ask this registry; default: image_mirror of each site."
        ),
    ] = "",
    json: Json = False,
) -> int:
    """Check that the mirrors of the rack sites have every image and chart, asking as the nodes do.

    Exit code 1: something is missing. Exit code 4: a mirror does not answer.
    """
    from gpufleet.racks.mirror.lacking import find_lacking
    from gpufleet.report.mirror_tables import lacking_table
    from gpufleet.report.tables import print_table

    plan, needs = _needs(environment, site)
    lacking = find_lacking(needs, registry)
    if json:
        emit_json({"environment": plan.environment, "lacking": [each.to_json() for each in lacking]})
    else:
        if lacking:
            print_table(lacking_table(lacking), out)
        out.print(
            f"{len(needs.images)} images and {len(needs.charts)} charts needed, {len(lacking)} missing",
            markup=False,
        )
    return int(ExitCode.REFUSED if lacking else ExitCode.DONE)


def _needs(environment: str, site: str) -> tuple[FleetPlan, Needs]:
    from gpufleet.checks import validate
    from gpufleet.racks.mirror.needs import needs_of
    from gpufleet.workspace import Workspace

    workspace = Workspace.open(environment)
    validated = validate(workspace.target, root=workspace.root, bought=None)
    return validated.plan, needs_of(validated.plan, validated.catalog, site)
