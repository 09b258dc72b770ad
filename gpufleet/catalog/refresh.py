"""Reads the AWS part of the catalog from an account: types, offerings, zones, and all prices.

The caller provides the clients (boto3's, or a test's). Requests that are not permitted or fail are listed in
`RefreshResult.unanswered` and keep their old values; only a failure to list the instance types ends the run.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    NoRegionError,
)
from msgspec import Struct

from gpufleet.catalog.aws_shapes import (
    capacity_block_price,
    has_accelerator,
    instance_from_aws,
    on_demand_prices,
    spot_by_zone_id,
)
from gpufleet.catalog.models import InstanceType, KeyPrices, Price, Region, RegionRead, SpotPrices, Zone
from gpufleet.catalog.spot import summarise_spot
from gpufleet.catalog.usage_prices import REQUESTS, usage_prices
from gpufleet.errors import CloudError

PRICE_LIST_REGION = "us-east-1"
BLOCK_HOURS = 24
_PRICE_LIST = "Price List GetProducts"
_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}

# (service, region) -> client
Clients = Callable[[str, str], Any]
Answer = TypeVar("Answer")


class RefreshResult(Struct, frozen=True):
    """The result of one run, and its failed requests (`unanswered`: one sentence each)."""

    instances: tuple[InstanceType, ...]
    regions: tuple[Region, ...]
    asked: tuple[RegionRead, ...]
    services: tuple[KeyPrices, ...]
    unanswered: tuple[str, ...]


def masked_account(clients: Clients, region: str) -> str:
    """Return `account ********9012`. Raises CloudError if AWS or the credentials fail."""
    try:
        account = str(clients("sts", region).get_caller_identity()["Account"])
    except (ClientError, BotoCoreError) as error:
        raise (_without_network(error) or _of_credentials(error)) from None
    return f"account {'*' * (len(account) - 4)}{account[-4:]}"


def _without_network(error: Exception) -> CloudError | None:
    """Return the error for a network failure; None for an error from AWS."""
    if isinstance(error, (ConnectionError, HTTPClientError)):
        return CloudError(
            f"AWS cannot be reached: {error}",
            remedy="check network, name resolution and proxy (HTTPS_PROXY); the catalog is unchanged",
        )
    return None


def _of_credentials(error: Exception) -> CloudError:
    """Return the error for AWS's answer to the first request, which needs no permission."""
    if isinstance(error, NoRegionError):
        return CloudError(f"no region is set: {error}", remedy="pass --region, or set AWS_REGION")
    code = str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
    status = (
        error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if isinstance(error, ClientError)
        else 0
    )
    if status >= 500 or "Throttl" in code:
        return CloudError(f"AWS is temporarily unavailable: {error}", remedy="try again in a minute")
    return CloudError(f"AWS rejects the credentials: {error}", remedy="renew them, e.g. `aws sso login`")


class Refresher:
    """Reads region by region. `system_types` are types to keep although they have no accelerator."""

    def __init__(
        self,
        clients: Clients,
        *,
        account: str,
        now: dt.datetime,
        system_types: frozenset[str],
        capacity_blocks: bool = False,
        progress: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._clients = clients
        self._now = now
        self._system_types = system_types
        self._capacity_blocks = capacity_blocks
        self._progress = progress
        self._account = account
        self._unanswered: list[str] = []

    def read(self, regions: Iterable[str]) -> RefreshResult:
        """Read everything about `regions`. Raises CloudError if instance types cannot be listed."""
        types: dict[str, InstanceType] = {}
        zones: list[Region] = []
        asked: list[RegionRead] = []
        services: dict[str, dict[str, Price]] = {}
        for name in regions:
            self._progress(f"{name}: instance types")
            found = self._types(name)
            region = self._zones(name)
            on_demand = self._on_demand(name, frozenset(found))
            spot = self._spot(name, frozenset(found), region, on_demand)
            blocks = self._blocks(name, found.values()) if self._capacity_blocks else {}
            for item in found.values():
                types[item.name] = _with_region(
                    types.get(item.name, item),
                    name,
                    on_demand.get(item.name),
                    (spot or {}).get(item.name),
                    blocks.get(item.name),
                )
            for key, price in self._services(name).items():
                services.setdefault(key, {})[name] = price
            zones += [region] if region else []
            asked.append(RegionRead(name=name, date=self._now.date(), spot=spot is not None))
        return RefreshResult(
            tuple(types[name] for name in sorted(types)),
            tuple(zones),
            tuple(asked),
            tuple(KeyPrices(key=key, prices=services[key]) for key in sorted(services)),
            tuple(self._unanswered),
        )

    def _source(self, api: str) -> str:
        return f"{self._account}, {api}"

    def _types(self, region: str) -> dict[str, InstanceType]:
        ec2 = self._clients("ec2", region)
        try:
            offered = {
                offering["InstanceType"]
                for page in ec2.get_paginator("describe_instance_type_offerings").paginate(
                    LocationType="region"
                )
                for offering in page["InstanceTypeOfferings"]
            }
            return {
                info["InstanceType"]: instance_from_aws(info, source=self._source("DescribeInstanceTypes"))
                for page in ec2.get_paginator("describe_instance_types").paginate()
                for info in page["InstanceTypes"]
                if info["InstanceType"] in offered
                and (has_accelerator(info) or info["InstanceType"] in self._system_types)
            }
        except (ClientError, BotoCoreError) as error:
            raise _without_network(error) or CloudError(
                f"{region}: cannot list instance types: {error}",
                remedy="allow ec2:DescribeInstanceTypes and ec2:DescribeInstanceTypeOfferings, "
                "and check that the region is enabled in the account",
            ) from None

    def _asked(self, region: str, what: str, ask: Callable[[], Answer]) -> Answer | None:
        self._progress(f"{region}: {what}")
        try:
            return ask()
        except (ClientError, BotoCoreError) as error:
            self._unanswered.append(f"{region}: no {what}: {error}")
            return None

    def _zones(self, region: str) -> Region | None:
        def ask() -> Region:
            answer = self._clients("ec2", region).describe_availability_zones()
            zones = [
                zone
                for zone in answer["AvailabilityZones"]
                if zone.get("ZoneType", "availability-zone") == "availability-zone"
            ]
            return Region(
                name=region,
                zones=tuple(
                    Zone(name=zone["ZoneName"], zone_id=zone["ZoneId"])
                    for zone in sorted(zones, key=lambda zone: str(zone["ZoneName"]))
                ),
                zone_ids=tuple(sorted(zone["ZoneId"] for zone in zones)),
                source=self._source("DescribeAvailabilityZones"),
            )

        return self._asked(region, "zones", ask)

    def _on_demand(self, region: str, wanted: frozenset[str]) -> dict[str, Price]:
        def ask() -> dict[str, Price]:
            return on_demand_prices(
                self._products("AmazonEC2", region, _LINUX),
                wanted,
                source=self._source(_PRICE_LIST),
                date=self._now.date(),
            )

        return self._asked(region, "on-demand prices", ask) or {}

    def _services(self, region: str) -> dict[str, Price]:
        def ask() -> dict[str, Price]:
            documents = (
                document
                for service, filters in REQUESTS
                for document in self._products(service, region, filters)
            )
            return usage_prices(documents, source=self._source(_PRICE_LIST), date=self._now.date())

        return self._asked(region, "prices of services", ask) or {}

    def _products(self, service: str, region: str, filters: Mapping[str, str]) -> Iterator[str]:
        fields = {"regionCode": region, **filters}
        wanted = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]
        pages = (
            self._clients("pricing", PRICE_LIST_REGION)
            .get_paginator("get_products")
            .paginate(ServiceCode=service, FormatVersion="aws_v1", Filters=wanted)
        )
        for page in pages:
            yield from page["PriceList"]

    def _spot(
        self, region: str, wanted: frozenset[str], zones: Region | None, on_demand: Mapping[str, Price]
    ) -> dict[str, SpotPrices] | None:
        if zones is None:
            self._unanswered.append(f"{region}: no spot prices: without the zones they cannot be assigned")
            return None
        ids = {zone.name: zone.zone_id for zone in zones.zones if zone.zone_id}

        def ask() -> dict[str, SpotPrices]:
            pages = (
                self._clients("ec2", region)
                .get_paginator("describe_spot_price_history")
                .paginate(
                    InstanceTypes=sorted(wanted),
                    ProductDescriptions=["Linux/UNIX"],
                    StartTime=self._now,
                    EndTime=self._now,
                )
            )
            records = (record for page in pages for record in page["SpotPriceHistory"])
            source = self._source("DescribeSpotPriceHistory")
            found: dict[str, SpotPrices] = {}
            for name, prices in spot_by_zone_id(records, ids).items():
                known = on_demand.get(name)
                summary = summarise_spot(
                    prices, known.amount if known else None, source=source, date=self._now.date()
                )
                if summary is not None:
                    found[name] = summary
            return found

        return self._asked(region, "spot prices", ask)

    def _blocks(self, region: str, types: Iterable[InstanceType]) -> dict[str, Price]:
        ec2 = self._clients("ec2", region)
        source = self._source(f"DescribeCapacityBlockOfferings, 1 instance for {BLOCK_HOURS} h")
        found: dict[str, Price] = {}
        for item in types:
            if "capacity-block" not in item.usage_classes:
                continue

            def ask(name: str = item.name) -> Price | None:
                pages = ec2.get_paginator("describe_capacity_block_offerings").paginate(
                    InstanceType=name, InstanceCount=1, CapacityDurationHours=BLOCK_HOURS
                )
                offerings = (offering for page in pages for offering in page["CapacityBlockOfferings"])
                return capacity_block_price(offerings, source=source, date=self._now.date())

            price = self._asked(region, f"Capacity Block price of {item.name}", ask)
            if price is not None:
                found[item.name] = price
        return found


def _with_region(
    item: InstanceType, region: str, on_demand: Price | None, spot: SpotPrices | None, block: Price | None
) -> InstanceType:
    return item.model_copy(
        update={
            "regions": item.regions | {region},
            "on_demand": item.on_demand | ({region: on_demand} if on_demand else {}),
            "spot": item.spot | ({region: spot} if spot else {}),
            "capacity_block": item.capacity_block | ({region: block} if block else {}),
        }
    )
