"""`gpufleet adopt`: a fleet file of what an account or a Slurm site has already."""

from __future__ import annotations

import functools
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.console import emit_json, out
from gpufleet.errors import CloudError, InputError, SpecError
from gpufleet.interruption import defer_interruption
from gpufleet.workspace import find_root

if TYPE_CHECKING:
    from gpufleet.account.reading import Clients
    from gpufleet.adopt.remarks import AdoptedSite, Remark
    from gpufleet.catalog import Catalog
    from gpufleet.checks import ValidFleet

_TAGS = ("team", "cost-center", "project")


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(adopt)


def adopt(
    environment: Annotated[str, typer.Argument(help="The name of the new environment.")],
    fleet: Annotated[str, typer.Option(help="The name of the fleet.")] = "atlas",
    region: Annotated[
        list[str] | None, typer.Option(help="A region of the account to read. Can be repeated.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="The profile of the AWS configuration.")] = None,
    slurm: Annotated[
        list[Path] | None,
        typer.Option(help="A folder with slurm.conf and gres.conf of a rack site. Can be repeated."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Monthly budget, such as '50000 USD'; default: the cost at maximum size."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="A tag, such as team=ml, beside those that all networks have. Can be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a fleet file of what exists: of regions of an AWS account, and of sites that Slurm runs.

    Only reads. Creates stacks/<env>/fleet.yaml with everything that differs as comments, its stack
    configuration, and stacks/<env>/imports.json with what the stack takes over instead of creating it, once
    stacks/<env>/tags.sh has given it the fleet's tags.
    """
    from gpufleet.adopt.document import fleet_document, imports_document, tagging_script
    from gpufleet.catalog import load_catalog
    from gpufleet.checks import OVERRIDES
    from gpufleet.files import put
    from gpufleet.spec.init import check_name, refuse_existing, write_environment

    root = find_root()
    check_name("environment", environment)
    check_name("fleet", fleet)
    refuse_existing(root, environment)
    if not region and not slurm:
        raise InputError("there is nothing to read", remedy="name --region us-east-1, or --slurm /etc/slurm")
    catalog = load_catalog(root / OVERRIDES)
    cloud, others = _cloud(region or [], profile, catalog, fleet, environment)
    onprem = _racks(slurm or [], catalog)
    if not cloud and not onprem:
        raise InputError(
            f"no node group and no file system was found in {', '.join(region or ())}",
            remedy="name the regions that have some",
        )
    write = functools.partial(
        fleet_document,
        fleet,
        environment,
        cloud,
        onprem,
        tags=_tags(tag or [], cloud),
        channel=max(catalog.locks),
        others=others,
    )
    text = write(budget=budget or _cost(_judged(write(budget="1 USD"), environment, catalog)))
    judged = _judged(text, environment, catalog)
    with defer_interruption():
        path, stack = write_environment(root, environment, "cloud", text)
        written = [path, stack]
        if any(site.imports for site in cloud):
            written.append(path.with_name("imports.json"))
            put(written[-1], imports_document(cloud).encode(), mode=0o644, over=False)
            if not isinstance(judged, SpecError):
                written.append(path.with_name("tags.sh"))
                put(written[-1], tagging_script(cloud, judged.plan.cloud).encode(), mode=0o755, over=False)
    remarks = [each for site in (*cloud, *onprem) for each in site.remarks] + others
    findings = judged.findings
    if json:
        emit_json(
            {
                "written": [str(each) for each in written],
                "sites": [site.name for site in (*cloud, *onprem)],
                "remarks": [{"subject": each.subject, "text": each.text} for each in remarks],
                "imports": sum(len(site.imports) for site in cloud),
                "findings": len(findings),
            }
        )
        return
    for each in written:
        out.print(f"wrote {each.relative_to(root)}", markup=False)
    for remark in remarks:
        out.print(f"  {remark.subject}: {remark.text}", markup=False)
    out.print(
        f"{len(remarks)} remarks, {len(findings)} findings. Next: gpufleet validate {environment}, then"
        f" gpufleet plan {environment}",
        markup=False,
    )


def _cloud(
    regions: list[str], profile: str | None, catalog: Catalog, fleet: str, environment: str
) -> tuple[list[AdoptedSite], list[Remark]]:
    from botocore.exceptions import ClientError

    from gpufleet.account.reading import NotCheckedError, error_code
    from gpufleet.adopt.account import read_region
    from gpufleet.adopt.cloud import cloud_sites

    sites: list[AdoptedSite] = []
    others: list[Remark] = []
    if not regions:
        return sites, others
    clients = _clients(profile, regions[0])
    for region in dict.fromkeys(regions):
        try:
            found, more = cloud_sites(read_region(region, clients), catalog, fleet, environment)
        except NotCheckedError as error:
            raise CloudError(
                f"{region} cannot be read: {error}",
                remedy="use credentials that may read (policy ReadOnlyAccess); nothing was written",
            ) from None
        except ClientError as error:
            text = error.response.get("Error", {}).get("Message", "")
            raise CloudError(
                f"{region} cannot be read: {error.operation_name} answers {error_code(error)}: {text}",
                remedy=f"correct or delete what AWS names, or leave out --region {region};"
                " nothing was written",
            ) from None
        sites += found
        others += more
    return sites, others


def _clients(profile: str | None, region: str) -> Clients:
    from gpufleet.aws_session import open_session
    from gpufleet.cli.account import require_account

    require_account((), profile)
    session = open_session(profile, region)

    @functools.cache
    def client(service: str, where: str) -> Any:
        return session.client(service, region_name=where)

    return client


def _racks(folders: list[Path], catalog: Catalog) -> list[AdoptedSite]:
    from gpufleet.adopt.slurm import read_slurm, slurm_sites

    return [site for folder in folders for site in slurm_sites(read_slurm(folder), catalog)]


def _tags(given: list[str], sites: list[AdoptedSite]) -> dict[str, str]:
    """Return the tags that all networks have, and the given ones before them."""
    known = [set(site.tags.items()) for site in sites]
    common = sorted(set.intersection(*known)) if known else []
    tags = dict.fromkeys(_TAGS, "unknown")
    tags |= {
        name: value for name, value in common if not name.startswith(("gpufleet:", "aws:")) and name != "Name"
    }
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"--tag {text[:60]!r} is no tag", remedy="write name=value")
        tags[name] = value
    return tags


def _judged(text: str, environment: str, catalog: Catalog) -> ValidFleet | SpecError:
    """Return the fleet of this text, or its findings."""
    from gpufleet.checks import validate
    from gpufleet.spec.load import FLEET_FILE, STACKS

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STACKS / environment / FLEET_FILE
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        try:
            return validate(str(path), root=Path(folder), catalog=catalog)
        except SpecError as error:
            return error


def _cost(fleet: ValidFleet | SpecError) -> str:
    """Return the known cost at maximum size, rounded up to 100 USD; 1000 USD for an invalid file."""
    if isinstance(fleet, SpecError):
        return "1000 USD"
    return f"{max(1, math.ceil(fleet.cost.total.maximum / 100)) * 100} USD"
