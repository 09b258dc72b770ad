"""DNS between a site and the racks: what it needs, domains, and servers that queries reach."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.errors import SpecError
from tests.unit.checks.fleets import Judge

WHERE = "cloud[0].network.dns"
FORWARD: dict[str, Any] = {"domain": "corp.example", "servers": ["10.60.0.53", "10.60.1.53"]}
VPN: dict[str, Any] = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"]}


def dns(*forward: dict[str, Any], inbound: bool = True, vpn: dict[str, Any] | None = VPN) -> dict[str, Any]:
    """The change that adds DNS and a VPN to the first cloud site."""
    connection = {} if vpn is None else {"cloud.0.network.vpn": vpn}
    return {**connection, "cloud.0.network.dns": {"forward": list(forward), "inbound": inbound}}


@pytest.mark.parametrize(
    "forward",
    [
        [],
        [FORWARD],
        [FORWARD, {"domain": "lab.corp.example", "servers": ["10.60.2.53"]}],
        [{"domain": "60.10.in-addr.arpa", "servers": ["10.60.0.53"]}],
    ],
)
def test_declared_dns_passes(judge: Judge, forward: list[dict[str, Any]]) -> None:
    assert judge(dns(*forward)).rules == set()


def test_direct_connect_carries_queries_as_well(judge: Judge) -> None:
    direct = {"gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35", "networks": ["10.60.0.0/22"]}
    changes = dns(FORWARD, vpn=None) | {"cloud.0.network.direct_connect": direct}
    assert judge(changes).rules == set()


def test_dns_without_a_connection_is_refused(judge: Judge) -> None:
    finding = judge(dns(FORWARD, vpn=None)).only("dns-connection")
    assert finding.field == WHERE
    assert "site 'use1' has no connection to the racks" in finding.message
    assert finding.remedy == "add `network.vpn` or `network.direct_connect`, or remove `dns`"


def test_dns_that_does_nothing_is_refused(judge: Judge) -> None:
    finding = judge(dns(inbound=False)).only("dns-connection")
    assert finding.field == WHERE
    assert "neither domains to forward nor an inbound endpoint" in finding.message


def test_domain_is_forwarded_once(judge: Judge) -> None:
    finding = judge(dns(FORWARD, {**FORWARD, "domain": "Corp.Example"})).only("dns-domain")
    assert (finding.field, finding.value) == (f"{WHERE}.forward[1].domain", "Corp.Example")
    assert finding.message == "domain corp.example is forwarded twice"


@pytest.mark.parametrize(
    "domain",
    [
        *("amazonaws.com", "us-east-1.compute.internal", "ec2.internal", "S3.us-east-1.amazonaws.com"),
        *("amazonaws.com.cn", "s3.dualstack.us-east-1.api.aws"),
    ],
)
def test_domain_of_aws_is_refused(judge: Judge, domain: str) -> None:
    finding = judge(dns({**FORWARD, "domain": domain})).only("dns-domain")
    assert finding.value == domain
    assert finding.message.startswith(f"{domain.lower()} is a domain of AWS")


def test_domain_that_only_looks_like_one_of_aws_passes(judge: Judge) -> None:
    assert judge(dns({**FORWARD, "domain": "notamazonaws.com"})).rules == set()


@pytest.mark.parametrize("domain", ["", "corp.example.", "*.corp.example", "corp_lab.example", "a..b"])
def test_text_that_is_no_domain_is_refused(judge: Judge, domain: str) -> None:
    with pytest.raises(SpecError) as error:
        judge(dns({**FORWARD, "domain": domain}))
    assert [each.field for each in error.value.findings] == [f"{WHERE}.forward[0].domain"]


def test_server_outside_of_the_networks_behind_the_connection_is_refused(judge: Judge) -> None:
    finding = judge(dns({**FORWARD, "servers": ["10.60.0.53", "10.70.0.53"]})).only("dns-servers")
    assert (finding.field, finding.value) == (f"{WHERE}.forward[0].servers[1]", "10.70.0.53")
    assert "no connection of site 'use1' leads to DNS server 10.70.0.53: it leads to 10.60.0.0/22" in (
        finding.message
    )


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        (["10.60.0.53", "10.60.0.53"], "10.60.0.53 is listed twice"),
        (["10.60.0.53", "10.60.0.300"], "'10.60.0.300' is no IPv4 address"),
    ],
)
def test_server_that_repeats_or_is_no_address_is_refused(
    judge: Judge, servers: list[str], message: str
) -> None:
    finding = judge(dns({**FORWARD, "servers": servers})).only("dns-servers")
    assert (finding.field, finding.message) == (f"{WHERE}.forward[0].servers[1]", message)


@pytest.mark.parametrize("servers", [[], [f"10.60.0.{number}" for number in range(1, 8)]])
def test_domain_has_one_to_six_servers(judge: Judge, servers: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        judge(dns({**FORWARD, "servers": servers}))
    assert [each.field for each in error.value.findings] == [f"{WHERE}.forward[0].servers"]


@pytest.mark.parametrize(("number", "refused"), [(30, False), (31, True)])
def test_rules_of_networks_fit_into_a_security_group(judge: Judge, number: int, refused: bool) -> None:
    vpn = {**VPN, "networks": [f"10.{100 + each}.0.0/16" for each in range(number)]}
    judged = judge(dns(vpn=vpn))
    assert judged.fields("dns-rules") == ([f"{WHERE}.inbound"] if refused else [])
    assert (
        not refused or "need 62 rules of a security group, which takes 60" in judged.only("dns-rules").message
    )
    forwarding = dns(FORWARD, inbound=False, vpn={**vpn, "networks": [*vpn["networks"], "10.60.0.0/22"]})
    assert judge(forwarding).rules == set()


@pytest.mark.parametrize(("number", "refused"), [(30, False), (31, True)])
def test_rules_of_servers_fit_into_a_security_group(judge: Judge, number: int, refused: bool) -> None:
    forward = [{"domain": f"d{each}.example", "servers": [f"10.60.0.{each + 1}"]} for each in range(number)]
    judged = judge(dns(*forward))
    assert judged.fields("dns-rules") == ([f"{WHERE}.forward"] if refused else [])
    assert (
        not refused or "need 62 rules of a security group, which takes 60" in judged.only("dns-rules").message
    )
