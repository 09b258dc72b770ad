"""Nodes, clusters and their protection: templates, addresses, versions by date, deletion."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpufleet.policies.rules.security._eks_calendar import CALENDAR, offered
from gpufleet.policies.rules.security.templates_known import templates_known
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.examples import policy_context, stack
from gpufleet.policy.settings import configure
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
BUCKET = "aws:s3/bucket:Bucket"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
STANDARD = {"upgradePolicy": {"supportType": "STANDARD"}}


def fleet(environment: str, **more: Any) -> Mapping[str, Any]:
    group = {
        "name": "open",
        "instance_types": ["g6.xlarge"],
        "capacity": {"on_demand": {"max": 1}},
        "public_ip": True,
    }
    site = {
        "site": "use1",
        "provider": "aws",
        "region": "us-east-1",
        "zones": ["us-east-1a", "us-east-1b"],
        "network": {"cidr": "10.0.0.0/16"},
        "scheduler": "slurm",
        "node_groups": [group, {**group, "name": "closed", "public_ip": False}],
    }
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": environment,
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "a", "cost-center": "b", "project": "c"},
        "cloud": [site],
        "software": {"channel": "2026.11"},
        **more,
    }


def test_node_group_without_a_launch_template_breaks_three_rules(ask: Ask) -> None:
    bare = {"type": NODE_GROUP, "props": {"scalingConfig": {"maxSize": 1}}}
    for rule in ("imdsv2-required", "ebs-encrypted", "templates-known"):
        assert ask(rule, bare), rule


def test_instance_uses_the_metadata_options_of_its_template(ask: Ask) -> None:
    kind = "aws:ec2/instance:Instance"
    assert ask("imdsv2-required", {"type": kind, "props": {"launchTemplate": {"id": "lt-1"}}}) == []
    own = {"launchTemplate": {"id": "lt-1"}, "metadataOptions": {"httpTokens": "optional"}}
    assert ask("imdsv2-required", {"type": kind, "props": own})


def test_disabled_metadata_service_needs_no_tokens(ask: Ask) -> None:
    off = {"type": TEMPLATE, "props": {"metadataOptions": {"httpEndpoint": "disabled"}}}
    assert ask("imdsv2-required", off) == []
    ignored = {**off, "options": {"ignoreChanges": ["metadataOptions"]}}
    assert ask("imdsv2-required", ignored)


def test_foreign_template_or_older_version_is_found(ask: Ask) -> None:
    group = "aws:autoscaling/group:Group"
    away = {"type": group, "props": {"maxSize": 1, "launchTemplate": {"id": "lt-away", "version": "1"}}}
    (found,) = ask("templates-known", away)
    assert found.violation.unknown
    here = {
        "type": TEMPLATE,
        "name": "nodes",
        "props": {"id": "lt-1", "latestVersion": 3, "defaultVersion": 3},
    }
    pinned = {
        "type": group,
        "name": "g",
        "props": {"maxSize": 1, "launchTemplate": {"id": "lt-1", "version": "2"}},
    }
    newest = {**pinned, "props": {"maxSize": 1, "launchTemplate": {"id": "lt-1", "version": "$Latest"}}}
    assert ask("templates-known", here, pinned)
    assert ask("templates-known", here, newest) == []


def test_looked_up_template_is_not_part_of_the_stack(ask: Ask) -> None:
    declared = {"type": TEMPLATE, "name": "nodes", "props": {"id": "lt-1"}}
    group = {
        "type": "aws:autoscaling/group:Group",
        "name": "g",
        "props": {"maxSize": 1, "launchTemplate": {"id": "lt-1", "version": "$Latest"}},
    }
    read, launcher = stack([declared, group])
    judge = RuleEvaluator(configure([templates_known]), policy_context())
    assert judge.stack(Stack([read, launcher])) == []
    (found,) = judge.stack(Stack([replace(read, inputs=None), launcher]))
    assert "is read, not created here" in found.message


def _public(group: str) -> Described:
    tags = {"gpufleet:site": "use1", "gpufleet:node-group": group}
    interface = {"associatePublicIpAddress": "true"}
    return {"type": TEMPLATE, "name": group, "props": {"tags": tags, "networkInterfaces": [interface]}}


def test_public_address_passes_only_for_groups_that_request_it_in_the_fleet_file(ask: Ask) -> None:
    asked = fleet("dev")
    assert ask("no-public-ip", _public("open"), fleet=asked) == []
    assert ask("no-public-ip", _public("closed"), fleet=asked)
    assert ask("no-public-ip", _public("unheard-of"), fleet=asked)
    assert ask("no-public-ip", _public("open"))


def test_carrier_and_elastic_addresses_are_public(ask: Ask) -> None:
    carrier = {"networkInterfaces": [{"associateCarrierIpAddress": "true"}]}
    assert ask("no-public-ip", {"type": TEMPLATE, "props": carrier})
    assert ask("no-public-ip", {"type": "aws:ec2/eip:Eip", "props": {"instance": UNKNOWN}})
    assert ask(
        "no-public-ip", {"type": "aws:ec2/eipAssociation:EipAssociation", "props": {"instanceId": "i-1"}}
    )
    assert ask("no-public-ip", {"type": "aws:ec2/eip:Eip", "props": {"domain": "vpc"}}) == []


def _at(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("version", [f"{major}.{minor}" for major, minor in CALENDAR])
def test_offered_eks_version_is_judged_independently_of_the_date(ask: Ask, version: str) -> None:
    cluster = {"type": CLUSTER, "props": {"version": version}}
    answers = {
        tuple(each.message for each in ask("eks-version-offered", cluster, now=_at(dt.date(year, 6, 1))))
        for year in (2024, 2026, 2030, 2040)
    }
    assert len(answers) == 1
    assert (answers == {()}) is (version in offered())


def test_version_past_standard_support_is_advisory(ask: Ask) -> None:
    cluster = {"type": CLUSTER, "props": {"version": "1.34", **STANDARD}}
    ends = CALENDAR[(1, 34)].standard
    assert ends is not None
    assert ask("eks-version-standard-support", cluster, now=_at(ends)) == []
    (found,) = ask("eks-version-standard-support", cluster, now=_at(ends + dt.timedelta(days=1)))
    assert found.level == "advisory"
    assert f"extended support since {ends}" in found.message
    (over,) = ask("eks-version-standard-support", cluster, now=_at(ends + dt.timedelta(days=400)))
    assert "ended on" in over.message
    (early,) = ask(
        "eks-version-standard-support", cluster, now=_at(ends - dt.timedelta(days=20)), settings={"days": 30}
    )
    assert "20 days" in early.message


def test_version_without_known_dates_passes(ask: Ask) -> None:
    for version in ("1.36", "1.99", UNKNOWN):
        cluster = {"type": CLUSTER, "props": {"version": version, **STANDARD}}
        assert ask("eks-version-standard-support", cluster, now=_at(dt.date(2040, 1, 1))) == []


def test_extended_support_is_reported_unless_allowed(ask: Ask) -> None:
    cluster = {"type": CLUSTER, "props": {"version": "1.35", "upgradePolicy": {"supportType": "EXTENDED"}}}
    assert ask("eks-version-standard-support", cluster)
    assert ask("eks-version-standard-support", cluster, settings={"extended": True}) == []


def test_setting_allows_a_newer_version(ask: Ask) -> None:
    cluster = {"type": CLUSTER, "props": {"version": "1.37"}}
    assert ask("eks-version-offered", cluster)
    assert ask("eks-version-offered", cluster, settings={"also": ["1.37"]}) == []


def test_public_endpoint_can_be_forbidden_for_listed_networks(ask: Ask) -> None:
    access = {
        "endpointPublicAccess": True,
        "endpointPrivateAccess": True,
        "publicAccessCidrs": ["198.51.100.0/24"],
    }
    cluster = {"type": CLUSTER, "props": {"vpcConfig": access}}
    assert ask("eks-endpoint-private", cluster) == []
    assert ask("eks-endpoint-private", cluster, settings={"restricted_public": False})


@pytest.mark.parametrize(
    "kind", [BUCKET, "aws:s3/bucketV2:BucketV2", LUSTRE, "aws:efs/fileSystem:FileSystem"]
)
def test_storage_without_protect_is_found_outside_temporary_environments(ask: Ask, kind: str) -> None:
    bare = {"type": kind}
    assert ask("storage-protected", bare, stack="prod")
    assert ask("storage-protected", bare, stack="sandbox") == []
    assert ask("storage-protected", bare, stack="sandbox", settings={"temporary": []})
    assert ask("storage-protected", {**bare, "options": {"protect": True}}, stack="prod") == []


def test_environment_comes_from_the_fleet_file_and_not_the_stack_name(ask: Ask) -> None:
    bare = {"type": BUCKET}
    assert ask("storage-protected", bare, stack="dev", fleet=fleet("prod"))
    assert ask("storage-protected", bare, stack="prod", fleet=fleet("dev")) == []


def test_only_an_environment_that_expires_soon_is_temporary(ask: Ask) -> None:
    assert ask("storage-protected", {"type": BUCKET}, fleet=fleet("trial", expires="2026-12-01")) == []
    assert ask("storage-protected", {"type": BUCKET}, fleet=fleet("trial", expires="2099-12-01"))
    assert ask("storage-protected", {"type": BUCKET}, fleet=fleet("trial"))


def test_key_of_storage_is_protected_like_the_storage(ask: Ask) -> None:
    key = {"type": "aws:kms/key:Key", "name": "key"}
    system = {
        "type": LUSTRE,
        "name": "fs",
        "props": {"kmsKeyId": UNKNOWN},
        "depends": {"kmsKeyId": ["key"]},
        "options": {"protect": True},
    }
    (found,) = ask("storage-protected", key, system)
    assert found.urn.endswith("::key")
    assert ask("storage-protected", {**key, "options": {"protect": True}}, system) == []
    assert ask("storage-protected", key) == []


def test_file_system_that_fsx_cannot_back_up_needs_no_backups(ask: Ask) -> None:
    linked = {
        "type": LUSTRE,
        "name": "fs",
        "props": {"deploymentType": "PERSISTENT_2", "skipFinalBackup": True},
    }
    association = {
        "type": "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        "name": "link",
        "depends": {"fileSystemId": ["fs"]},
    }
    assert ask("file-systems-backed-up", linked)
    assert ask("file-systems-backed-up", linked, association) == []
    scratch = {**linked, "props": {"deploymentType": "SCRATCH_2", "skipFinalBackup": True}}
    assert ask("file-systems-backed-up", scratch) == []
    assert ask("file-systems-backed-up", linked, stack="dev") == []


ACCESS_KEY = "AKIA" + "IOSFODNN7EXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYEXAMPLEKEY"
PRIVATE_KEY = "-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3Bl\n"


@pytest.mark.parametrize(
    "text",
    [
        f"key={ACCESS_KEY}",
        PRIVATE_KEY,
        "hf_" + "a" * 34,
        "ghp_" + "a" * 36,
        f"export AWS_SECRET_ACCESS_KEY={SECRET_KEY}",
        f"aws_secret_access_key = {SECRET_KEY}",
    ],
)
@pytest.mark.parametrize(
    ("kind", "prop", "wrap"),
    [
        (TEMPLATE, "userData", lambda text: base64.b64encode(text.encode()).decode()),
        (TEMPLATE, "userData", lambda text: text),
        (
            "aws:ec2/instance:Instance",
            "userDataBase64",
            lambda text: base64.b64encode(text.encode()).decode(),
        ),
        ("aws:ec2/vpc:Vpc", "tags", lambda text: {"note": text}),
        ("aws:lambda/function:Function", "environment", lambda text: {"variables": {"TOKEN": text}}),
        ("kubernetes:core/v1:ConfigMap", "data", lambda text: {"key": [text]}),
    ],
)
def test_plaintext_credential_is_found_and_not_printed(
    ask: Ask, text: str, kind: str, prop: str, wrap: Callable[[str], Any]
) -> None:
    (found,) = ask("no-plain-secrets", {"type": kind, "props": {prop: wrap(text)}})
    assert found.violation.prop.startswith(prop)
    assert text not in found.message


def test_pulumi_secret_passes_where_only_its_owner_reads_it(ask: Ask) -> None:
    kept = {"type": "aws:secretsmanager/secretVersion:SecretVersion", "props": {"secretString": ACCESS_KEY}}
    assert ask("no-plain-secrets", kept)
    assert ask("no-plain-secrets", {**kept, "secrets": ["secretString"]}) == []
    readable = {"type": TEMPLATE, "props": {"userData": ACCESS_KEY}, "secrets": ["userData"]}
    assert ask("no-plain-secrets", readable)


def test_ordinary_text_is_not_a_credential(ask: Ask) -> None:
    props = {"userData": "#!/bin/bash\necho AKIA is a prefix, and so is hf_\n", "name": UNKNOWN}
    assert ask("no-plain-secrets", {"type": TEMPLATE, "props": props}) == []
