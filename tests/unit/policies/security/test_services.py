"""Services of a user's own program are judged by the names of their properties, whatever their type."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.policies.rules.security import no_public_services, services_encrypted
from gpufleet.resources import aws_types
from gpufleet.resources.aws_types_build import package, resources
from gpufleet.resources.resource import UNKNOWN
from tests.unit.policies.security.conftest import Ask

ANY = "aws:mq/broker:Broker"


def _one(kind: str, options: dict[str, Any] | None = None, **props: Any) -> dict[str, Any]:
    return {"type": kind, "props": props, **({"options": options} if options else {})}


@pytest.mark.parametrize("value", [True, "true", UNKNOWN, "yes", 1])
@pytest.mark.parametrize("flag", sorted(no_public_services.FLAGS))
def test_flag_that_makes_a_service_public_is_refused_at_any_depth(ask: Ask, flag: str, value: object) -> None:
    for props, path in (
        ({flag: value}, flag),
        ({"networkConfiguration": {flag: value}}, f"networkConfiguration.{flag}"),
        ({"nodes": [{"a": {flag: value}}]}, f"nodes[0].a.{flag}"),
    ):
        (found,) = ask("no-public-services", _one(ANY, **props))
        assert found.violation.prop == path
        assert found.violation.unknown == (value is UNKNOWN)
    assert len(ask("no-public-services", _one(ANY, {"ignoreChanges": [flag]}, **{flag: False}))) == 1
    assert ask("no-public-services", _one(ANY, **{flag: None})) == []
    assert ask("no-public-services", _one(ANY, **{flag: False}), _one(ANY, tags={flag: "true"})) == []
    assert ask("no-public-services", _one(f"gcp:a/b:{flag}", **{flag: True})) == []


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        ("aws:lambda/functionUrl:FunctionUrl", {"authorizationType": "AWS_IAM"}),
        ("aws:sagemaker/notebookInstance:NotebookInstance", {"directInternetAccess": "Disabled"}),
        ("aws:sagemaker/domain:Domain", {"appNetworkAccessType": "VpcOnly"}),
        ("aws:opensearch/domain:Domain", {"vpcOptions": {"subnetIds": ["subnet-1"]}}),
        ("aws:elasticsearch/domain:Domain", {"vpcOptions": {"subnetIds": ["subnet-1"]}}),
        ("aws:transfer/server:Server", {"endpointType": "VPC"}),
    ],
)
def test_type_that_is_public_by_default_needs_its_property(
    ask: Ask, kind: str, props: dict[str, Any]
) -> None:
    assert ask("no-public-services", _one(kind, **props)) == []
    (name,) = props
    for bad in ({}, {name: "NONE"}, {name: {}}, {name: UNKNOWN}):
        assert len(ask("no-public-services", _one(kind, **bad))) == 1
    ignoring = _one(kind, {"ignoreChanges": [name]}, **props)
    assert len(ask("no-public-services", ignoring)) == 1


@pytest.mark.parametrize(
    ("kind", "props", "found"),
    [
        ("apprunner/service:Service", {}, True),
        (
            "apprunner/service:Service",
            {"networkConfiguration": {"ingressConfiguration": {"isPubliclyAccessible": False}}},
            False,
        ),
        (
            "msk/cluster:Cluster",
            {
                "brokerNodeGroupInfo": {
                    "connectivityInfo": {"publicAccess": {"type": "SERVICE_PROVIDED_EIPS"}},
                }
            },
            True,
        ),
        ("msk/cluster:Cluster", {"brokerNodeGroupInfo": {"clientSubnets": ["subnet-1"]}}, False),
        ("lightsail/instance:Instance", {"bundleId": "large_3_0"}, True),
    ],
)
def test_service_that_is_public_by_its_network_is_found(
    ask: Ask, kind: str, props: dict[str, Any], found: bool
) -> None:
    assert bool(ask("no-public-services", _one(f"aws:{kind}", **props))) == found


@pytest.mark.parametrize("flag", sorted(services_encrypted.FLAGS))
def test_encryption_is_not_switched_off_at_any_depth(ask: Ask, flag: str) -> None:
    for value in (False, "false", UNKNOWN, "no"):
        (found,) = ask("services-encrypted", _one(ANY, volumes=[{flag: value}]))
        assert found.violation.prop == f"volumes[0].{flag}"
    assert ask("services-encrypted", _one(ANY, **{flag: True}), _one(ANY)) == []
    assert len(ask("services-encrypted", _one(ANY, {"ignoreChanges": [flag]}, **{flag: True}))) == 1
    assert ask("services-encrypted", _one("gcp:a/b:C", **{flag: False})) == []


@pytest.mark.parametrize("kind", sorted(services_encrypted.NEEDED))
def test_type_that_is_not_encrypted_by_default_needs_it(ask: Ask, kind: str) -> None:
    paths = services_encrypted.NEEDED[kind]
    assert {each.violation.prop for each in ask("services-encrypted", _one(kind))} == {*paths}
    good: dict[str, Any] = {}
    for path in paths:
        head, _, inner = path.partition(".")
        good[head] = {inner: True} if inner else True
    assert ask("services-encrypted", _one(kind, **good)) == []
    heads = [path.partition(".")[0] for path in paths]
    assert len(ask("services-encrypted", _one(kind, {"ignoreChanges": heads}, **good))) == len(paths)


def test_flags_and_types_are_those_of_pulumi_aws() -> None:
    types = {*no_public_services.NEEDED, *no_public_services.PUBLIC, *services_encrypted.NEEDED}
    assert all(aws_types.exists(each) for each in types)
    names: set[str] = set()
    needed: dict[str, set[str]] = {}
    for path in package().rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "pulumi.CustomResource" in text or path.name == "_inputs.py":
            names |= {each for each in _WANTED if _snake(each) in text}
        if any(kind in text for kind in types):
            needed |= {kind: {*inputs} for kind, inputs, _ in resources(text) if kind in types}
    assert _WANTED - names == set()
    for kind, paths in services_encrypted.NEEDED.items():
        assert {_snake(path.partition(".")[0]) for path in paths} <= needed[kind]
    for kind, (prop, _, _) in no_public_services.NEEDED.items():
        assert _snake(prop.partition(".")[0]) in needed[kind]


_WANTED = no_public_services.FLAGS | services_encrypted.FLAGS


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
