"""How a run reaches its clusters, as whom, and who else has access."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.catalog import load_catalog
from gpufleet.eks_access.entries import ClusterEntries
from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.load import load_fleet
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import Recording, record

ROOT = Path(__file__).resolve().parents[3]
ADMIN, VIEWER = (f"arn:aws:iam::123456789012:role/{name}" for name in ("platform", "preview"))
ROLE: Mapping[str, Any] = {"role_arn": "arn:aws:iam::123456789012:role/deploy"}


def plan(**kubernetes: Any) -> FleetPlan:
    """The fleet of dev with other settings of its cluster, and without node groups."""
    dev = build_plan(load_fleet("dev", root=ROOT).spec, load_catalog())
    (site,) = dev.cloud
    assert site.kubernetes is not None
    return replace(
        dev, cloud=(replace(site, node_groups=(), kubernetes=replace(site.kubernetes, **kubernetes)),)
    )


def built(
    of: FleetPlan, *, cloud: str = "aws", identity: AwsIdentity | None = None, preview: bool = False
) -> Recording:
    settings = StackSettings(cloud, "dev", True, "0", {}, {}, identity=identity or AwsIdentity())
    return record(lambda: build_fleet(of, settings), preview=preview)


def config(made: Recording) -> Any:
    """The kubeconfig of the run."""
    return json.loads(made.one("pulumi:providers:kubernetes").inputs["kubeconfig"])


def command(made: Recording) -> list[str]:
    """The command that gets a token in the kubeconfig of the run."""
    run = config(made)["users"][0]["user"]["exec"]
    return [run["command"], *run["args"]]


def test_private_endpoint_is_reached_through_a_port_under_its_own_name(programs: Path) -> None:
    of = plan()
    (site,) = of.cloud
    assert site.kubernetes is not None
    assert (site.kubernetes.access, site.kubernetes.public_cidrs) == ("ssm", ())
    made = built(of)
    cluster = config(made)["clusters"][0]["cluster"]
    assert cluster["server"] == f"https://127.0.0.1:{site.kubernetes.access_port}"
    assert cluster["tls-server-name"] == "1234.eks.test"
    assert command(made) == [
        *("gpufleet", "eks-token", "--cluster-name", "atlas-dev-use1", "--region", "us-east-1"),
        *("--endpoint", "1234.eks.test", "--port", str(site.kubernetes.access_port)),
    ]


def test_contents_wait_for_the_system_nodes_that_lead_to_the_endpoint(programs: Path) -> None:
    made = built(plan())
    provider = made.one("pulumi:providers:kubernetes")
    (nodes,) = [group for group in made.of("aws:eks/nodeGroup:NodeGroup") if group.name.endswith("-system")]
    assert nodes.urn in provider.dependencies
    inside = [each for each in made if each.custom and each.type.startswith("kubernetes:")]
    assert inside
    assert all(each.provider.startswith(provider.urn) for each in inside)


def test_other_way_in_is_not_another_cluster(programs: Path) -> None:
    for access in ("ssm", "direct"):
        provider = built(plan(access=access)).one("pulumi:providers:kubernetes")
        assert provider.inputs["clusterIdentifier"] == "https://1234.eks.test"


def test_direct_run_uses_the_endpoint_and_the_aws_cli_as_before(programs: Path) -> None:
    made = built(plan(access="direct"))
    assert config(made)["clusters"][0]["cluster"] == {
        "server": "https://1234.eks.test",
        "certificate-authority-data": "Q0E=",
    }
    assert command(made) == [
        *("aws", "--region", "us-east-1", "eks", "get-token", "--cluster-name", "atlas-dev-use1")
    ]


def test_sandbox_has_no_forward_and_no_identifier() -> None:
    made = built(plan(), cloud="sandbox")
    assert config(made)["clusters"][0]["cluster"]["server"] == "https://1234.eks.test"
    assert "clusterIdentifier" not in made.one("pulumi:providers:kubernetes").inputs


def test_token_is_that_of_the_profile_and_the_role_of_the_stack(programs: Path) -> None:
    direct, named = plan(access="direct"), AwsIdentity("training")
    assert command(built(direct, identity=named))[3:5] == ["--profile", "training"]
    asked = command(built(direct, identity=AwsIdentity("training", (ROLE | {"session_name": "x"},))))
    assert asked[3:5] == ["--profile", "training"]
    assert asked[-2:] == ["--role-arn", ROLE["role_arn"]]
    forwarded = command(built(plan(), identity=AwsIdentity("training", (ROLE,))))
    assert forwarded[6:10] == ["--profile", "training", "--assume-roles", json.dumps([dict(ROLE)])]


@pytest.mark.parametrize("roles", [(ROLE, ROLE), (ROLE | {"external_id": "x"},)])
def test_roles_that_the_aws_cli_cannot_express_are_assumed_by_gpufleet(
    programs: Path, roles: tuple[Mapping[str, Any], ...]
) -> None:
    asked = command(built(plan(access="direct"), identity=AwsIdentity(None, roles)))
    assert asked[:2] == ["gpufleet", "eks-token"]
    assert "--endpoint" not in asked
    assert json.loads(asked[asked.index("--assume-roles") + 1]) == [dict(role) for role in roles]


def test_phased_run_ends_before_the_contents_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warned: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: warned.append(text))
    monkeypatch.setenv("PATH", "/nonexistent")
    made = built(plan(access="phased"))
    assert made.one("aws:eks/cluster:Cluster")
    assert made.of("aws:eks/addon:Addon")
    assert [each for each in made if "kubernetes" in each.type.partition("/")[0]] == []
    (reported,) = warned
    assert reported == (
        "site use1: nothing is applied in its cluster (kubernetes.access: phased). To go on, write direct,"
        " on a machine in a network that reaches the API, or ssm, and run up again"
    )


@pytest.mark.parametrize(
    ("access", "missing"), [("ssm", "session-manager-plugin"), ("ssm", "gpufleet"), ("direct", "aws")]
)
def test_missing_program_ends_the_run_before_anything_is_created(
    programs: Path, monkeypatch: pytest.MonkeyPatch, access: str, missing: str
) -> None:
    (programs / missing).unlink()
    monkeypatch.setenv("PATH", str(programs))
    created: list[str] = []
    monkeypatch.setattr("gpufleet.stacks.cloud_site.build_site", lambda *_: created.append("a site"))
    with pytest.raises(InputError, match=f"{missing}, which is not on PATH") as error:
        built(plan(access=access))
    assert error.value.remedy
    assert created == []


def test_preview_without_the_plugin_only_warns(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs / "session-manager-plugin").unlink()
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), "/bin"]))
    warned: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: warned.append(text))
    made = built(plan(), preview=True)
    assert made.one("aws:eks/cluster:Cluster")
    assert any("session-manager-plugin, which is not on PATH" in each for each in warned)


def entries(monkeypatch: pytest.MonkeyPatch, found: ClusterEntries) -> None:
    monkeypatch.setattr("gpufleet.stacks.cluster_access.cluster_entries", lambda *_: found)


def granted(made: Recording) -> dict[str, str]:
    """The policy of each principal that gets an access entry."""
    return {
        each.inputs["principalArn"]: each.inputs["policyArn"].rpartition("/")[2]
        for each in made.of("AccessPolicyAssociation")
    }


SESSION = "arn:aws:sts::123456789012:assumed-role/platform/me"


def test_creator_among_the_admins_gets_no_second_entry(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "arn:aws:iam::123456789012:role/oncall"
    of = plan(admins=(ADMIN, other))
    entries(monkeypatch, ClusterEntries(False, (SESSION,), (SESSION,)))
    first = built(of)
    entries(monkeypatch, ClusterEntries(True, (ADMIN,), (ADMIN,)))
    later = built(of)
    assert granted(first) == granted(later) == {other: "AmazonEKSClusterAdminPolicy"}
    entries(monkeypatch, ClusterEntries(True, (), ()))
    assert granted(built(of)).keys() == {ADMIN, other}


def test_admin_with_a_lesser_entry_of_somebody_else_is_refused(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries(monkeypatch, ClusterEntries(True, (ADMIN,), ()))
    with pytest.raises(InputError, match="does not administer it") as error:
        built(plan(admins=(ADMIN,)))
    assert f"--principal-arn {ADMIN}" in error.value.remedy


def test_viewer_gets_the_view_policy(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries(monkeypatch, ClusterEntries(True, (), ()))
    made = built(plan(viewers=(VIEWER,)))
    assert granted(made) == {VIEWER: "AmazonEKSAdminViewPolicy"}
    assert made.one("AccessEntry").name == "atlas-dev-use1-viewer-123456789012-role-preview"


def test_viewer_that_creates_the_cluster_is_refused_but_may_preview_it(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = "arn:aws:sts::123456789012:assumed-role/preview/ci"
    entries(monkeypatch, ClusterEntries(False, (caller,), (caller,)))
    with pytest.raises(InputError, match=r"kubernetes\.viewers.*may do more than read"):
        built(plan(viewers=(VIEWER,)))
    made = built(plan(viewers=(VIEWER,)), preview=True)
    assert [each.inputs["principalArn"] for each in made.of("AccessEntry")] == [VIEWER]


def test_entries_are_not_asked_for_without_admins_and_viewers(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gpufleet.stacks.cluster_access.cluster_entries", lambda *_: pytest.fail("asked for entries")
    )
    assert granted(built(plan())) == {}
