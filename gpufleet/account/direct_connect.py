"""The Direct Connect gateways that a fleet file names: owner, state, BGP number, and room for its sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.account.caller import Caller
from gpufleet.account.needs import RegionNeeds, SiteNeeds
from gpufleet.account.reading import Clients, NotCheckedError, error_code, pages
from gpufleet.account.result import AccountCheck, AccountFinding, SpecPath
from gpufleet.kinds import MOST_GATEWAYS_OF_DIRECT_CONNECT
from gpufleet.plan.direct_connect import DirectConnectPlan

CHECK = "direct-connect"


def check_direct_connect(needs: RegionNeeds, caller: Caller, clients: Clients) -> AccountCheck:
    """Check each Direct Connect gateway of the account. AWS describes none of another account to it."""
    from botocore.exceptions import ClientError

    findings: list[AccountFinding] = []
    unchecked: list[str] = []
    facts: list[dict[str, Any]] = []
    for site, direct in _declared(needs):
        path = (*site.path, "network", "direct_connect")
        facts.append({"gateway": direct.gateway, "owner": direct.owner, "state": None, "asn": None})
        if direct.owner is not None:
            if direct.owner == caller.account:
                findings.append(_own_account(path, direct))
            continue
        try:
            client = clients("directconnect", needs.region)
            found = _gateway(client, direct.gateway)
            if found is not None:
                facts[-1] |= {
                    "state": found["directConnectGatewayState"],
                    "asn": found.get("amazonSideAsn"),
                }
            findings += _judged(site, path, direct, found)
            if found is not None:
                findings += _full(needs, path, direct, client, clients)
        except NotCheckedError as error:
            unchecked.append(f"{direct.gateway}: {error}")
        except ClientError as error:
            unchecked.append(f"{direct.gateway}: {error_code(error)}")
    return AccountCheck(CHECK, needs.region, tuple(findings), tuple(unchecked), tuple(facts))


def _declared(needs: RegionNeeds) -> Iterator[tuple[SiteNeeds, DirectConnectPlan]]:
    for site in needs.sites:
        if site.plan.direct_connect is not None:
            yield site, site.plan.direct_connect


def _gateway(client: Any, identity: str) -> dict[str, Any] | None:
    listed = pages(
        client,
        "describe_direct_connect_gateways",
        "directConnectGateways",
        directConnectGatewayId=identity,
    )
    found: list[dict[str, Any]] = [each for each in listed if each["directConnectGatewayState"] != "deleted"]
    return found[0] if found else None


def _own_account(path: SpecPath, direct: DirectConnectPlan) -> AccountFinding:
    return AccountFinding(
        "direct-connect-owner",
        (*path, "owner"),
        direct.owner,
        f"the owner of Direct Connect gateway {direct.gateway} is account {direct.owner}, which is the"
        " account of this environment: an association with its own gateway needs no proposal",
        "remove 'owner'",
    )


def _judged(
    site: SiteNeeds, path: SpecPath, direct: DirectConnectPlan, found: dict[str, Any] | None
) -> Iterator[AccountFinding]:
    if found is None:
        yield AccountFinding(
            "direct-connect-gateway",
            (*path, "gateway"),
            direct.gateway,
            f"the account has no Direct Connect gateway {direct.gateway}",
            "write the id of one (`aws directconnect describe-direct-connect-gateways`), or its account in"
            " 'owner' if it is of another account",
        )
        return
    state = found["directConnectGatewayState"]
    if state != "available":
        yield AccountFinding(
            "direct-connect-state",
            (*path, "gateway"),
            state,
            f"Direct Connect gateway {direct.gateway} is {state}, not available",
            "wait until it is available, or use another one",
        )
    vpn = site.plan.vpn
    if vpn is not None and found.get("amazonSideAsn") == vpn.asn:
        yield AccountFinding(
            "direct-connect-asn",
            (*site.path, "network", "vpn", "asn"),
            vpn.asn,
            f"Direct Connect gateway {direct.gateway} and the VPN's router have the BGP number {vpn.asn}: a"
            " router rejects routes that contain its own number",
            "give the router another number, unless Direct Connect leads to a router with another one",
            severity="warning",
        )


def _full(
    needs: RegionNeeds, path: SpecPath, direct: DirectConnectPlan, client: Any, clients: Clients
) -> Iterator[AccountFinding]:
    """Compare the room of the gateway with the sites of the region; associations that exist count once."""
    ec2 = clients("ec2", needs.region)
    own = {
        each["VpnGatewayId"]
        for each in pages(ec2, "describe_vpn_gateways", "VpnGateways")
        if needs.owns(each.get("Tags"))
    }
    listed = pages(
        client,
        "describe_direct_connect_gateway_associations",
        "directConnectGatewayAssociations",
        directConnectGatewayId=direct.gateway,
    )
    others = sum(
        1
        for each in listed
        if each.get("associatedGateway", {}).get("id") not in own
        and each["associationState"] not in ("disassociating", "disassociated")
    )
    wanted = sum(1 for _, each in _declared(needs) if each.gateway == direct.gateway)
    if others + wanted > MOST_GATEWAYS_OF_DIRECT_CONNECT:
        yield AccountFinding(
            "direct-connect-full",
            (*path, "gateway"),
            others,
            f"Direct Connect gateway {direct.gateway} has {others} other gateways, and the sites in"
            f" {needs.region} need {wanted}: it takes at most {MOST_GATEWAYS_OF_DIRECT_CONNECT}",
            "use another Direct Connect gateway, or remove associations that are not needed",
        )
