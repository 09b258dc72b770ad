"""`gpufleet catalog refresh`: read the AWS part of the catalog from an account."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.markup import escape
from rich.text import Text

from gpufleet.catalog import Catalog, InstanceType, KeyPrices, Region, RegionRead, load_catalog
from gpufleet.catalog.changes import PriceChange, price_changes
from gpufleet.catalog.overlay import overlay
from gpufleet.catalog.store import (
    INSTANCES,
    REGIONS,
    SERVICES,
    instances_text,
    read_entries,
    regions_text,
    services_text,
)
from gpufleet.cli.console import emit_json, err, out
from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.interruption import defer_interruption
from gpufleet.workspace import find_root

if TYPE_CHECKING:
    from gpufleet.catalog.refresh import RefreshResult

FALLBACK_REGION = "us-east-1"
SHOWN_CHANGES = 30

Regions = Annotated[
    list[str] | None,
    typer.Option("--region", help="A region to read. Can be repeated. Default: the profile's region."),
]


def now() -> dt.datetime:
    """Return the current time in UTC."""
    return dt.datetime.now(tz=dt.UTC)


def refresh(
    region: Regions = None,
    profile: Annotated[str | None, typer.Option("--profile", help="An AWS profile.")] = None,
    capacity_blocks: Annotated[
        bool,
        typer.Option(
            "--capacity-blocks", help="Also read Capacity Block prices, with one API call per type."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Read instance types and prices from your AWS account into this checkout's .gpufleet/catalog/."""
    from gpufleet.catalog.refresh import Refresher, masked_account

    folder = find_root() / ".gpufleet" / "catalog"
    before = load_catalog(folder)
    clients, own_region = _clients(profile)
    regions = list(dict.fromkeys(region or [own_region or FALLBACK_REGION]))
    account = masked_account(clients, regions[0])
    if not json:
        out.print(f"{account}: reading {', '.join(regions)}", soft_wrap=True)
    system_types = frozenset(name for name, item in before.instances.items() if item.accelerator is None)
    reading = Refresher(
        clients,
        account=account,
        now=now(),
        system_types=system_types,
        capacity_blocks=capacity_blocks,
        progress=lambda line: None if json else err.print(f"  {line}", soft_wrap=True),
    ).read(regions)
    with defer_interruption():
        _write(folder, reading.instances, reading.regions, reading.asked)
        _write_services(folder / SERVICES, reading.services)
        _report(folder, before, reading, account, regions, json=json)


def _report(
    folder: Path, before: Catalog, reading: RefreshResult, account: str, regions: Sequence[str], *, json: bool
) -> None:
    after = load_catalog(folder)
    changes = list(price_changes(before, after, regions))
    added = sorted(after.instances.keys() - before.instances.keys())
    if json:
        emit_json(
            {
                "account": account,
                "regions": regions,
                "instance_types": len(reading.instances),
                "added": added,
                "changes": [_change_json(change) for change in changes],
                "unanswered": reading.unanswered,
                "file": str(folder / INSTANCES),
            }
        )
        return
    _print(changes, added, reading.unanswered)
    out.print(f"{len(reading.instances)} instance types in {folder / INSTANCES}", soft_wrap=True)


def _clients(profile: str | None) -> tuple[Any, str | None]:
    """Return (client factory by service and region, region of the profile). InputError without
    credentials."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if urlsplit(endpoint).hostname in {"127.0.0.1", "localhost", "::1"}:
        raise InputError(
            f"AWS_ENDPOINT_URL is {endpoint}: an emulated AWS has no prices",
            remedy="unset AWS_ENDPOINT_URL to read from your account",
        )
    try:
        session = boto3.Session(profile_name=profile)
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise InputError(f"no usable AWS profile: {error}", remedy="use a profile of ~/.aws/config") from None
    if credentials is None:
        raise InputError(
            "no AWS credentials: `catalog refresh` reads prices from an account",
            remedy="set AWS_PROFILE or pass --profile; without an account, the shipped catalog is used",
        )
    patient = Config(retries={"mode": "adaptive", "max_attempts": 8})
    # Fail fast if AWS cannot be reached.
    quick = Config(retries={"mode": "standard", "max_attempts": 2}, connect_timeout=5, read_timeout=20)

    def client(service: str, region: str) -> Any:
        return session.client(service, region_name=region, config=quick if service == "sts" else patient)

    return client, session.region_name


def _write(
    folder: Path, read: Sequence[InstanceType], regions: Sequence[Region], asked: Sequence[RegionRead]
) -> None:
    """Merge the results into those of earlier refreshes and replace the files."""
    path = folder / INSTANCES
    known: dict[str, InstanceType] = {}
    asked_before: dict[str, RegionRead] = {}
    if path.is_file():
        known = {item.name: item for item in read_entries(path, InstanceType, "instances")}
        asked_before = {item.name: item for item in read_entries(path, RegionRead, "read")}
    merged = overlay(known, read, asked)
    all_asked = asked_before | {item.name: item for item in asked}
    zones: dict[str, Region] = {}
    if (folder / REGIONS).is_file():
        zones = {item.name: item for item in read_entries(folder / REGIONS, Region, "regions")}
    zones |= {item.name: item for item in regions}
    write_atomically(path, instances_text(merged.values(), [all_asked[name] for name in sorted(all_asked)]))
    write_atomically(folder / REGIONS, regions_text(zones[name] for name in sorted(zones)))


def _write_services(path: Path, read: Sequence[KeyPrices]) -> None:
    """Merge prices of services into those of earlier refreshes and replace the file."""
    known = read_entries(path, KeyPrices, "services") if path.is_file() else ()
    merged = {item.key: item.prices for item in known}
    for item in read:
        merged[item.key] = merged.get(item.key, {}) | item.prices
    entries = (KeyPrices(key=key, prices=prices) for key, prices in sorted(merged.items()))
    write_atomically(path, services_text(entries))


def _print(changes: Sequence[PriceChange], added: Sequence[str], unanswered: Sequence[str]) -> None:
    if added:
        out.print(f"new: {', '.join(added)}", soft_wrap=True)
    for change in changes[:SHOWN_CHANGES]:
        out.print(_line(change))
    if len(changes) > SHOWN_CHANGES:
        out.print(f"  and {len(changes) - SHOWN_CHANGES} more; use --json for all")
    if not changes:
        out.print("no price changed")
    for line in unanswered:
        err.print(f"[yellow]warning:[/yellow] {escape(line)}; the known values are kept", soft_wrap=True)


def _line(change: PriceChange) -> Text:
    unit = "USD/h" if change.unit in ("instance-hour", "hour") else f"USD per {change.unit}"
    text = Text(f"  {change.what} {change.kind} {change.region}: ")
    text.append(f"{_plain(change.before)} -> {_plain(change.after)} {unit}")
    if change.before and change.after:
        share = (change.after / change.before - 1) * 100
        text.append(f" ({share:+.1f}%)", style="red" if share > 0 else "green")
    return text


def _plain(amount: Decimal | None) -> str:
    return "unknown" if amount is None else format(amount.normalize(), "f")


def _change_json(change: PriceChange) -> dict[str, Any]:
    return {
        "what": change.what,
        "kind": change.kind,
        "region": change.region,
        "unit": change.unit,
        "before": None if change.before is None else str(change.before),
        "after": None if change.after is None else str(change.after),
    }
