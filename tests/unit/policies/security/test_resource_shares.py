"""Shares of AWS RAM are those that the fleet file declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.security.resource_shares_declared import EXCLUSIVE
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources import aws_types
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    CAPACITY_RESERVATION,
    RESOURCE_SHARE,
    SHARE_PRINCIPAL,
    SHARED_RESOURCE,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "resource-shares-declared"
NAME = "atlas-prod-use1-a"
OTHER = "222233334444"


def share(external: Any = False, name: str = NAME) -> dict[str, Any]:
    props = {} if external is None else {"allowExternalPrincipals": external}
    return {"type": RESOURCE_SHARE, "name": name, "props": props}


def principal(value: Any = OTHER, of: str = NAME) -> dict[str, Any]:
    return {
        "type": SHARE_PRINCIPAL,
        "name": "principal",
        "props": {"principal": value},
        "depends": {"resourceShareArn": [of]},
    }


def fleet(**odcr: Any) -> dict[str, Any]:
    held = {"nodes": 1, "zone": "us-east-1a", **odcr}
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "ml", "cost-center": "c", "project": "p"},
        "software": {"channel": "2026.11"},
        "cloud": [
            {
                "site": "use1",
                "region": "us-east-1",
                "zones": ["us-east-1a"],
                "network": {"cidr": "10.0.0.0/16"},
                "scheduler": "slurm",
                "node_groups": [
                    {"name": "a", "instance_types": ["p5.48xlarge"], "capacity": {"reserved": {"odcr": held}}}
                ],
            }
        ],
    }


def test_principals_of_the_fleet_file_pass_and_others_are_found(ask: Ask) -> None:
    declared = fleet(share_with=[OTHER])
    assert ask(RULE, share(), principal(), fleet=declared) == []
    (found,) = ask(RULE, share(), principal("999999999999"), fleet=declared)
    assert found.violation.prop == "principal"
    assert not found.violation.unknown
    assert len(ask(RULE, share(), principal(), fleet=fleet())) == 1
    assert len(ask(RULE, share(), principal())) == 1


def test_principal_is_declared_for_its_own_reservation_only(ask: Ask) -> None:
    other = share(name="atlas-prod-use1-b")
    found = ask(RULE, share(), other, principal(of="atlas-prod-use1-b"), fleet=fleet(share_with=[OTHER]))
    assert len(found) == 1


def test_principal_of_the_settings_may_be_in_any_share(ask: Ask) -> None:
    assert ask(RULE, share(), principal(), settings={"principals": [OTHER]}) == []


def test_principal_that_is_not_known_yet_is_found(ask: Ask) -> None:
    (found,) = ask(RULE, share(), principal(UNKNOWN), fleet=fleet(share_with=[OTHER]))
    assert found.violation.unknown


@pytest.mark.parametrize("external", [True, "true", UNKNOWN])
def test_external_principals_must_be_declared(ask: Ask, external: Any) -> None:
    (found,) = ask(RULE, share(external), fleet=fleet(share_with=[OTHER]))
    assert found.violation.prop == "allowExternalPrincipals"
    outside = fleet(share_with=[OTHER], share_outside_organization=True)
    assert ask(RULE, share(external), principal(), fleet=outside) == []


@pytest.mark.parametrize("external", [None, False, "false"])
def test_share_of_the_organization_passes(ask: Ask, external: Any) -> None:
    assert ask(RULE, share(external)) == []


def shared(value: Any, *depends: str) -> dict[str, Any]:
    return {
        "type": SHARED_RESOURCE,
        "name": "shared",
        "props": {"resourceArn": value},
        "depends": {"resourceArn": list(depends)},
    }


def test_only_reservations_of_the_stack_are_shared(ask: Ask) -> None:
    held = {"type": CAPACITY_RESERVATION, "name": "held", "props": {}}
    assert ask(RULE, held, shared(UNKNOWN, "held")) == []
    subnet = "arn:aws:ec2:us-east-1:111122223333:subnet/subnet-0123456789abcdef0"
    (found,) = ask(RULE, held, shared(subnet))
    assert found.violation.prop == "resourceArn"
    (found,) = ask(RULE, held, shared(UNKNOWN))
    assert found.violation.unknown
    assert ask(RULE, shared(subnet), settings={"resources": [subnet]}) == []


def test_share_that_is_set_as_a_whole_is_checked_too(ask: Ask) -> None:
    whole = {
        "type": EXCLUSIVE,
        "name": "whole",
        "props": {"principals": [OTHER, "999999999999"], "resourceArns": ["arn:aws:ec2:::subnet/a"]},
        "depends": {"resourceShareArn": [NAME]},
    }
    found = ask(RULE, share(), whole, fleet=fleet(share_with=[OTHER]))
    assert [each.violation.prop for each in found] == ["principals[1]", "resourceArns[0]"]


def test_types_are_those_of_pulumi_aws() -> None:
    assert all(map(aws_types.exists, (RESOURCE_SHARE, SHARED_RESOURCE, SHARE_PRINCIPAL, EXCLUSIVE)))
