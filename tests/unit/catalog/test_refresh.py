"""Reading an account: its responses, and its refusals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.stub import ANY, Stubber
from moto import mock_aws

from gpufleet.catalog.refresh import Refresher, RefreshResult, masked_account
from gpufleet.catalog.usage_prices import REQUESTS
from gpufleet.errors import CloudError
from tests.unit.catalog.conftest import price_document, usage_document

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


def client_error(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetCallerIdentity")


class Account:
    """Clients with prepared responses, validated by botocore's models."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], Any] = {}
        self._stubs: dict[tuple[str, str], Stubber] = {}

    def __call__(self, service: str, region: str) -> Any:
        if (service, region) not in self._clients:
            client = boto3.client(service, region_name=region, **KEYS)
            self._clients[(service, region)] = client
            self._stubs[(service, region)] = Stubber(client)
            self._stubs[(service, region)].activate()
        return self._clients[(service, region)]

    def stub(self, service: str, region: str = "us-east-1") -> Stubber:
        self(service, region)
        return self._stubs[(service, region)]

    def assert_all_asked(self) -> None:
        for stub in self._stubs.values():
            stub.assert_no_pending_responses()


@pytest.fixture
def account(dump: dict[str, Any]) -> Account:
    """us-east-1 with p5.48xlarge, the system type m7i.xlarge, and c5.large, which is not in the catalog."""
    made = Account()
    ec2 = made.stub("ec2")
    names = ["p5.48xlarge", "m7i.xlarge", "c5.large"]
    ec2.add_response(
        "describe_instance_type_offerings",
        {
            "InstanceTypeOfferings": [{"InstanceType": name, "Location": "us-east-1"} for name in names[:1]],
            "NextToken": "page-2",
        },
        {"LocationType": "region"},
    )
    ec2.add_response(
        "describe_instance_type_offerings",
        {"InstanceTypeOfferings": [{"InstanceType": name, "Location": "us-east-1"} for name in names[1:]]},
        {"LocationType": "region", "NextToken": "page-2"},
    )
    types = [dump[name] for name in (*names, "p4d.24xlarge")]
    ec2.add_response("describe_instance_types", {"InstanceTypes": types}, {})
    return made


def add_zones(account: Account) -> None:
    zones = [("us-east-1b", "use1-az1"), ("us-east-1a", "use1-az4")]
    account.stub("ec2").add_response(
        "describe_availability_zones",
        {
            "AvailabilityZones": [
                {"ZoneName": name, "ZoneId": zone_id, "ZoneType": "availability-zone"}
                for name, zone_id in zones
            ]
            + [{"ZoneName": "us-east-1-atl-2a", "ZoneId": "use1-atl2-az1", "ZoneType": "local-zone"}]
        },
        {},
    )


def add_prices(account: Account) -> None:
    account.stub("pricing").add_response(
        "get_products",
        {
            "FormatVersion": "aws_v1",
            "PriceList": [
                price_document("p5.48xlarge", "50.0"),
                price_document("p5.48xlarge", "9.9", operatingSystem="Windows"),
                price_document("c5.large", "0.085"),
            ],
        },
        {"ServiceCode": "AmazonEC2", "FormatVersion": "aws_v1", "Filters": ANY},
    )


def add_services(account: Account, region: str = "us-east-1", **prices: str) -> None:
    """One answer per request; `prices` are usage types of the first one."""
    for number, (service, filters) in enumerate(REQUESTS):
        fields = {"regionCode": region, **filters}
        wanted = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]
        found = [usage_document(service, name, usd) for name, usd in prices.items()] if not number else []
        account.stub("pricing").add_response(
            "get_products",
            {"FormatVersion": "aws_v1", "PriceList": found},
            {"ServiceCode": service, "FormatVersion": "aws_v1", "Filters": wanted},
        )


def add_spot(account: Account) -> None:
    account.stub("ec2").add_response(
        "describe_spot_price_history",
        {
            "SpotPriceHistory": [
                {"InstanceType": "p5.48xlarge", "AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": NOW}
                for zone, usd in (("us-east-1a", "50.0"), ("us-east-1b", "20.5"), ("us-east-1-atl-2a", "1"))
            ]
        },
        {
            "InstanceTypes": ["m7i.xlarge", "p5.48xlarge"],
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": NOW,
            "EndTime": NOW,
        },
    )


def read(account: Account, *, capacity_blocks: bool = False) -> RefreshResult:
    reading = Refresher(
        account,
        account="account ********9012",
        now=NOW,
        system_types=frozenset({"m7i.xlarge"}),
        capacity_blocks=capacity_blocks,
    ).read(["us-east-1"])
    account.assert_all_asked()
    return reading


def test_accelerated_and_system_types_of_the_region_are_read(account: Account) -> None:
    for add in (add_zones, add_prices, add_services, add_spot):
        add(account)
    reading = read(account)
    assert [item.name for item in reading.instances] == ["m7i.xlarge", "p5.48xlarge"]
    p5 = reading.instances[1]
    assert p5.regions == {"us-east-1"}
    assert len(p5.cards) == 32
    assert p5.on_demand["us-east-1"].amount == Decimal(50)
    assert p5.on_demand["us-east-1"].date == NOW.date()
    assert p5.on_demand["us-east-1"].source == "account ********9012, Price List GetProducts"
    assert reading.instances[0].on_demand == {}, "no price is unknown, not 0"
    assert reading.unanswered == ()


def test_spot_prices_use_zone_ids_and_skip_local_zones(account: Account) -> None:
    for add in (add_zones, add_prices, add_services, add_spot):
        add(account)
    spot = read(account).instances[1].spot["us-east-1"]
    assert spot.by_zone_id == {"use1-az4": Decimal("50.0"), "use1-az1": Decimal("20.5")}
    assert spot.median == Decimal("20.5"), "the other zone costs as much as on-demand"


def test_zones_are_those_of_the_account(account: Account) -> None:
    for add in (add_zones, add_prices, add_services, add_spot):
        add(account)
    (region,) = read(account).regions
    assert [(zone.name, zone.zone_id) for zone in region.zones] == [
        ("us-east-1a", "use1-az4"),
        ("us-east-1b", "use1-az1"),
    ]
    assert region.zone_ids == ("use1-az1", "use1-az4")


def test_capacity_block_prices_are_read_on_request_and_only_for_their_types(account: Account) -> None:
    for add in (add_zones, add_prices, add_services, add_spot):
        add(account)
    account.stub("ec2").add_response(
        "describe_capacity_block_offerings",
        {
            "CapacityBlockOfferings": [
                {
                    "CapacityBlockOfferingId": "cb-0123456789abcdef0",
                    "InstanceType": "p5.48xlarge",
                    "AvailabilityZone": "us-east-1a",
                    "InstanceCount": 1,
                    "CapacityBlockDurationHours": 24,
                    "UpfrontFee": "943.92",
                    "CurrencyCode": "USD",
                }
            ]
        },
        {"InstanceType": "p5.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24},
    )
    reading = read(account, capacity_blocks=True)
    assert reading.instances[1].capacity_block["us-east-1"].amount == Decimal("39.33")
    assert reading.instances[0].capacity_block == {}


def test_missing_permission_is_named_and_the_rest_is_read(account: Account) -> None:
    add_zones(account)
    for _ in ("instances", "services"):
        account.stub("pricing").add_client_error(
            "get_products", "AccessDeniedException", "not authorized to perform: pricing:GetProducts"
        )
    add_spot(account)
    reading = read(account)
    assert reading.instances[1].on_demand == {}
    assert "us-east-1" in reading.instances[1].spot
    line, services = reading.unanswered
    assert "on-demand prices" in line
    assert "us-east-1: no prices of services" in services
    assert reading.services == ()
    assert "pricing:GetProducts" in line
    assert reading.asked[0].spot is True


def test_spot_prices_without_zones_are_neither_read_nor_removed(account: Account) -> None:
    account.stub("ec2").add_client_error("describe_availability_zones", "UnauthorizedOperation", "no")
    add_prices(account)
    add_services(account)
    reading = read(account)
    assert reading.asked[0].spot is False
    assert reading.regions == ()
    assert len(reading.unanswered) == 2


def test_region_whose_types_cannot_be_listed_ends_the_run() -> None:
    account = Account()
    account.stub("ec2").add_client_error(
        "describe_instance_type_offerings", "OptInRequired", "You are not subscribed to this service"
    )
    with pytest.raises(CloudError, match="us-east-1: cannot list instance types") as caught:
        read(account)
    assert "ec2:DescribeInstanceTypes" in caught.value.remedy


def test_account_id_is_shown_by_its_last_four_digits() -> None:
    account = Account()
    account.stub("sts").add_response(
        "get_caller_identity", {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/a"}
    )
    assert masked_account(account, "us-east-1") == "account ********9012"


def test_credentials_refused_by_aws_are_a_cloud_failure() -> None:
    account = Account()
    account.stub("sts").add_client_error("get_caller_identity", "ExpiredToken", "The token has expired")
    with pytest.raises(CloudError, match="token has expired"):
        masked_account(account, "us-east-1")


@pytest.mark.parametrize(
    ("error", "reported", "remedy"),
    [
        (EndpointConnectionError(endpoint_url="https://sts"), "AWS cannot be reached", "network"),
        (ConnectTimeoutError(endpoint_url="https://sts"), "AWS cannot be reached", "network"),
        (ProxyConnectionError(proxy_url="http://proxy"), "AWS cannot be reached", "proxy"),
        (SSLError(endpoint_url="https://sts", error="x"), "AWS cannot be reached", "network"),
        (ReadTimeoutError(endpoint_url="https://sts"), "AWS cannot be reached", "network"),
        (NoCredentialsError(), "credentials", "renew"),
        (NoRegionError(), "no region is set", "--region"),
        (client_error("ExpiredToken", 403), "credentials", "renew"),
        (client_error("ServiceUnavailable", 503), "temporarily unavailable", "again"),
        (client_error("Throttling", 400), "temporarily unavailable", "again"),
    ],
)
def test_only_credential_errors_are_reported_as_such(error: Exception, reported: str, remedy: str) -> None:
    def clients(service: str, region: str) -> Any:
        raise error

    with pytest.raises(CloudError) as caught:
        masked_account(clients, "us-east-1")
    assert reported in caught.value.message
    assert remedy in caught.value.remedy
    assert ("credentials" in caught.value.message) == (reported == "credentials")


@pytest.fixture
def emulated() -> Iterator[None]:
    with mock_aws():
        yield


@pytest.mark.usefixtures("emulated")
def test_two_regions_of_an_emulated_account_are_merged() -> None:
    account = Account()
    for region in ("us-east-1", "us-west-2"):
        account.stub("pricing").add_response(
            "get_products",
            {"FormatVersion": "aws_v1", "PriceList": [price_document("p4d.24xlarge", "20", region)]},
        )
        add_services(account, region, **{"USW2-NatGateway-Hours": "0.045", "RegionalNatGateway-Hours": "1"})

    def clients(service: str, region: str) -> Any:
        if service == "pricing":
            return account(service, region)
        return boto3.client(service, region_name=region, **KEYS)

    reading = Refresher(
        clients, account=masked_account(clients, "us-east-1"), now=NOW, system_types=frozenset({"t3.medium"})
    ).read(["us-east-1", "us-west-2"])
    types = {item.name: item for item in reading.instances}
    assert {"p4d.24xlarge", "p5.48xlarge", "g6e.48xlarge", "trn1.32xlarge", "t3.medium"} <= types.keys()
    assert "m7i.xlarge" not in types
    p4d = types["p4d.24xlarge"]
    assert p4d.regions == {"us-east-1", "us-west-2"}
    assert {region: price.amount for region, price in p4d.on_demand.items()} == {
        "us-east-1": Decimal(20),
        "us-west-2": Decimal(20),
    }
    (nat,) = reading.services
    assert (nat.key, sorted(nat.prices)) == ("nat-gateway-hour", ["us-east-1", "us-west-2"])
    assert nat.prices["us-west-2"].amount == Decimal("0.045")
    assert p4d.spot.keys() == {"us-east-1", "us-west-2"}
    assert {region.name for region in reading.regions} == {"us-east-1", "us-west-2"}
    assert reading.unanswered == ()
