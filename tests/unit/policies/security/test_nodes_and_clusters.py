"""Nodes, clusters and their protection: templates, addresses, versions by date, deletion."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policies.rules.security import _eks_calendar
from gpufleet.policies.rules.security._eks_calendar import CALENDAR, offered, version_of
from gpufleet.policies.rules.security.templates_known import templates_known
from gpufleet.policy import examples
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


def test_interfaces_under_ignore_changes_are_reported_once(ask: Ask) -> None:
    props = {"networkInterfaces": [{"associatePublicIpAddress": "false"}]}
    template = {"type": TEMPLATE, "props": props, "options": {"ignoreChanges": ["networkInterfaces"]}}
    (found,) = ask("no-public-ip", template)
    assert "ignoreChanges" in found.message


def test_instance_in_a_subnet_of_the_stack_has_no_address(ask: Ask) -> None:
    subnet = {"type": "aws:ec2/subnet:Subnet", "name": "subnet", "props": {"id": "subnet-1"}}
    machine = {"type": "aws:ec2/instance:Instance", "name": "i", "props": {"subnetId": "subnet-1"}}
    assert ask("no-public-ip", subnet, machine) == []
    assert ask("no-public-ip", machine)


@pytest.mark.parametrize("name", ["open", "closed"])
@pytest.mark.parametrize("placed", [True, False])
def test_group_that_requests_an_address_may_be_in_a_public_network(ask: Ask, name: str, placed: bool) -> None:
    tags = [
        {"key": f"gpufleet:{key}", "value": value} for key, value in (("site", "use1"), ("node-group", name))
    ]
    props = {"tags": tags, "launchTemplate": {"id": "lt-1", "version": "$Latest"}}
    group = {"type": "aws:autoscaling/group:Group", "name": "g", "props": props}
    template = {"type": TEMPLATE, "name": "t", "props": {"id": "lt-1"}}
    network = []
    if placed:
        group["props"] = {**props, "vpcZoneIdentifiers": ["subnet-1"]}
        route = {"routeTableId": "rtb-1", "gatewayId": "igw-1"}
        link = {"routeTableId": "rtb-1", "subnetId": "subnet-1"}
        network = [
            {"type": "aws:ec2/routeTable:RouteTable", "name": "table", "props": {"id": "rtb-1"}},
            {"type": "aws:ec2/route:Route", "name": "out", "props": route},
            {"type": "aws:ec2/routeTableAssociation:RouteTableAssociation", "name": "of", "props": link},
        ]
    found = ask("no-public-ip", *network, template, group, fleet=fleet("dev"))
    assert (found == []) is (name == "open")


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (NODE_GROUP, {"launchTemplate": {"id": "lt-1", "version": "$Latest"}}),
        ("aws:batch/computeEnvironment:ComputeEnvironment", {"computeResources": {"maxVcpus": 4}}),
        ("aws:autoscaling/group:Group", {"launchTemplate": {"id": "lt-away", "version": "1"}}),
    ],
)
def test_launch_whose_subnets_are_not_known_is_left_to_other_rules(
    ask: Ask, kind: str, props: dict[str, Any]
) -> None:
    template = {"type": TEMPLATE, "name": "t", "props": {"id": "lt-1"}}
    assert ask("no-public-ip", template, {"type": kind, "name": "node", "props": props}) == []


def test_instance_without_a_template_needs_none(ask: Ask) -> None:
    assert ask("templates-known", {"type": "aws:ec2/instance:Instance", "props": {}}) == []


def test_flow_log_of_all_traffic_counts_beside_another(ask: Ask) -> None:
    vpc = {"type": "aws:ec2/vpc:Vpc", "name": "vpc"}
    logs = [
        {
            "type": "aws:ec2/flowLog:FlowLog",
            "name": traffic,
            "props": {"trafficType": traffic},
            "depends": {"vpcId": ["vpc"]},
        }
        for traffic in ("REJECT", "ALL")
    ]
    assert ask("vpc-flow-logs", vpc, *logs) == []
    assert ask("vpc-flow-logs", vpc, logs[0])
    assert ask("vpc-flow-logs", vpc, logs[0], {**logs[1], "options": {"ignoreChanges": ["trafficType"]}})


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


@pytest.mark.parametrize(
    ("value", "version"),
    [("1.35", (1, 35)), (" 1.36 ", (1, 36)), ("1.35.1", None), ("1.x", None), ("1", None), (1.35, None)],
)
def test_version_has_a_major_and_a_minor_number(value: object, version: tuple[int, int] | None) -> None:
    assert version_of(value) == version


def test_version_is_offered_until_the_last_day_of_extended_support(monkeypatch: pytest.MonkeyPatch) -> None:
    last = CALENDAR[(1, 30)].extended
    assert last is not None
    for day, there in ((last, True), (last + dt.timedelta(days=1), False)):
        monkeypatch.setattr(_eks_calendar, "READ_ON", day)
        assert ("1.30" in offered()) is there


@pytest.mark.parametrize(("version", "found"), [(None, False), (UNKNOWN, False), ("1.24", True)])
def test_version_of_a_node_group_is_its_own_or_that_of_the_cluster(
    ask: Ask, version: Any, found: bool
) -> None:
    assert bool(ask("eks-version-offered", {"type": NODE_GROUP, "props": {"version": version}})) is found
    assert ask("eks-version-offered", {"type": CLUSTER, "props": {"version": UNKNOWN}})


@pytest.mark.parametrize(
    ("days", "state"),
    [
        (30, "and standard support ends in 30 days"),
        (0, "and standard support ends in 0 days"),
        (-1, "and it is in extended support since 2026-12-02"),
        (-365, "and it is in extended support since 2026-12-02"),
        (-366, "and extended support ended on 2027-12-02"),
    ],
)
def test_message_has_the_state_of_support(ask: Ask, days: int, state: str) -> None:
    cluster = {"type": CLUSTER, "props": {"version": "1.34", **STANDARD}}
    ends = CALENDAR[(1, 34)].standard
    assert ends is not None
    day = _at(ends - dt.timedelta(days=days))
    (found,) = ask("eks-version-standard-support", cluster, now=day, settings={"days": 31})
    assert f"{state};" in found.message


def test_end_of_standard_support_is_reported_only_in_its_last_days(ask: Ask) -> None:
    cluster = {"type": CLUSTER, "props": {"version": "1.34", **STANDARD}}
    ends = CALENDAR[(1, 34)].standard
    assert ends is not None
    day = _at(ends - dt.timedelta(days=30))
    assert ask("eks-version-standard-support", cluster, now=day, settings={"days": 30}) == []


def test_past_support_of_a_version_without_a_last_day_is_extended(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CALENDAR, (1, 34), _eks_calendar.Support(dt.date(2026, 12, 2), None))
    cluster = {"type": CLUSTER, "props": {"version": "1.34", **STANDARD}}
    (found,) = ask("eks-version-standard-support", cluster, now=_at(dt.date(2030, 1, 1)))
    assert "in extended support since" in found.message


@pytest.mark.parametrize("value", [None, UNKNOWN, "yes"])
def test_endpoint_that_is_not_said_to_be_private_is_public(ask: Ask, value: Any) -> None:
    access = {
        "endpointPublicAccess": value,
        "endpointPrivateAccess": True,
        "publicAccessCidrs": ["198.51.100.0/24"],
    }
    (found,) = ask("eks-endpoint-private", {"type": CLUSTER, "props": {"vpcConfig": access}})
    assert found.violation.prop == "vpcConfig.endpointPublicAccess"
    assert found.violation.unknown is (value is UNKNOWN)


def test_private_endpoint_that_may_change_outside_is_found(ask: Ask) -> None:
    access = {"endpointPublicAccess": False, "endpointPrivateAccess": True}
    cluster = {"type": CLUSTER, "props": {"vpcConfig": access}}
    options = {"ignoreChanges": ["vpcConfig.endpointPublicAccess"]}
    (found,) = ask("eks-endpoint-private", {**cluster, "options": options})
    assert "ignoreChanges" in found.message


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


@pytest.mark.parametrize(("days", "temporary"), [(90, True), (91, False), (-1, True)])
def test_environment_is_temporary_in_its_last_days(ask: Ask, days: int, temporary: bool) -> None:
    ends = (examples.DAY.date() + dt.timedelta(days=days)).isoformat()
    found = ask("storage-protected", {"type": BUCKET}, fleet=fleet("trial", expires=ends))
    assert (found == []) is temporary


def test_environment_on_trial_is_temporary(ask: Ask) -> None:
    trial = {"gpufleet:cloud": "sandbox"}
    assert ask("storage-protected", {"type": BUCKET}, stack="prod", config=trial) == []
    assert ask(
        "storage-protected", {"type": BUCKET}, stack="prod", config={**trial, "gpufleet:protect": "true"}
    )


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


def lustre(name: str, **props: Any) -> Described:
    kept = {"deploymentType": "PERSISTENT_2", "automaticBackupRetentionDays": 7, "skipFinalBackup": False}
    return {"type": LUSTRE, "name": name, "props": {**kept, **props}}


def test_only_the_linked_file_system_needs_no_backups(ask: Ask) -> None:
    association = {
        "type": "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        "name": "link",
        "depends": {"fileSystemId": ["linked"]},
    }
    systems = [lustre(name, skipFinalBackup=True) for name in ("linked", "other")]
    (found,) = ask("file-systems-backed-up", *systems, association)
    assert found.urn.endswith("::other")
    assert ask("file-systems-backed-up", lustre("imported", skipFinalBackup=True, importPath="s3://b")) == []


@pytest.mark.parametrize(("days", "found"), [(7, False), (6, True), ("7", True), (UNKNOWN, True)])
def test_backups_are_kept_for_the_days_of_the_setting(ask: Ask, days: Any, found: bool) -> None:
    system = lustre("fs", automaticBackupRetentionDays=days)
    assert bool(ask("file-systems-backed-up", system, settings={"days": 7})) is found


@pytest.mark.parametrize(
    ("kind", "props", "found"),
    [
        ("windowsFileSystem:WindowsFileSystem", {}, True),
        ("windowsFileSystem:WindowsFileSystem", {"automaticBackupRetentionDays": 7}, False),
        (
            "windowsFileSystem:WindowsFileSystem",
            {"automaticBackupRetentionDays": 7, "skipFinalBackup": True},
            True,
        ),
        ("ontapFileSystem:OntapFileSystem", {"automaticBackupRetentionDays": 7}, False),
        (
            "ontapFileSystem:OntapFileSystem",
            {"automaticBackupRetentionDays": 7, "skipFinalBackup": True},
            False,
        ),
        (
            "openZfsFileSystem:OpenZfsFileSystem",
            {"automaticBackupRetentionDays": 7, "skipFinalBackup": "false"},
            False,
        ),
    ],
)
def test_other_file_systems_of_fsx_have_backups_too(
    ask: Ask, kind: str, props: dict[str, Any], found: bool
) -> None:
    assert bool(ask("file-systems-backed-up", {"type": f"aws:fsx/{kind}", "props": props})) is found


def test_node_group_without_a_template_uses_the_metadata_options_of_eks(ask: Ask) -> None:
    (found,) = ask("imdsv2-required", {"type": NODE_GROUP, "props": {}})
    assert found.violation.prop == "launchTemplate"
    assert ask("imdsv2-required", {"type": NODE_GROUP, "props": {"launchTemplate": {"id": "lt-1"}}}) == []


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
    inside = {"environment": {"variables": {"TOKEN": ACCESS_KEY}}}
    function = {"type": "aws:lambda/function:Function", "props": inside, "secrets": ["environment"]}
    assert ask("no-plain-secrets", function) == []
    assert ask("no-plain-secrets", {**function, "secrets": ["env", "environment.variables.OTHER"]})
    readable = {"type": TEMPLATE, "props": {"userData": ACCESS_KEY}, "secrets": ["userData"]}
    assert ask("no-plain-secrets", readable)


def test_only_user_data_is_decoded(ask: Ask) -> None:
    text = base64.b64encode(ACCESS_KEY.encode()).decode()
    assert ask("no-plain-secrets", {"type": TEMPLATE, "props": {"userData": text}})
    assert ask("no-plain-secrets", {"type": TEMPLATE, "props": {"description": text}}) == []


def test_ordinary_text_is_not_a_credential(ask: Ask) -> None:
    props = {"userData": "#!/bin/bash\necho AKIA is a prefix, and so is hf_\n", "name": UNKNOWN}
    assert ask("no-plain-secrets", {"type": TEMPLATE, "props": props}) == []
