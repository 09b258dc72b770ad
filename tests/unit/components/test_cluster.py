"""EksCluster: private, encrypted, logged, and created in an order in which nodes become ready."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.components.cluster import EksCluster, EksClusterArgs
from gpufleet.components.kubeconfig import kubeconfig
from gpufleet.errors import InputError
from gpufleet.kinds import BUCKET_ADDON, EKS_ADDONS, LUSTRE_ADDON
from tests.unit.components.recording import Recording, record


def cluster(**changes: Any) -> Recording:
    args: dict[str, Any] = {
        "cluster_name": "atlas",
        "version": "1.35",
        "cluster_role_arn": "arn:cluster",
        "node_role_arn": "arn:node",
        "subnet_ids": ["subnet-a", "subnet-b"],
        "tags": {"team": "ml"},
    }
    return record(lambda: EksCluster("eks", EksClusterArgs(**args | changes)))


def control_plane(**changes: Any) -> Any:
    return cluster(**changes).one("aws:eks/cluster:Cluster").inputs


def test_endpoint_is_private_by_default() -> None:
    config = control_plane()["vpcConfig"]
    assert config["endpointPrivateAccess"] is True
    assert config["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in config


def test_public_endpoint_is_open_only_to_the_listed_networks() -> None:
    config = control_plane(public_cidrs=["203.0.113.0/24"])["vpcConfig"]
    assert config["endpointPublicAccess"] is True
    assert config["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert config["endpointPrivateAccess"] is True


def test_private_endpoint_is_open_only_to_the_listed_networks_on_its_port() -> None:
    rules = cluster(private_cidrs=["10.60.0.0/24", "10.61.0.0/24"]).of("SecurityGroupIngressRule")
    assert {rule.inputs["cidrIpv4"] for rule in rules} == {"10.60.0.0/24", "10.61.0.0/24"}
    for rule in rules:
        assert (rule.inputs["ipProtocol"], rule.inputs["fromPort"], rule.inputs["toPort"]) == (
            "tcp",
            443,
            443,
        )
        assert rule.inputs["tags"]["team"] == "ml"
    assert cluster().of("SecurityGroupIngressRule") == []


def test_private_network_of_all_addresses_is_refused() -> None:
    with pytest.raises(ValueError, match="every network"):
        cluster(private_cidrs=["0.0.0.0/0"])


def test_cluster_never_enters_paid_extended_support_automatically() -> None:
    assert control_plane()["upgradePolicy"] == {"supportType": "STANDARD"}
    assert control_plane(support_type="EXTENDED")["upgradePolicy"] == {"supportType": "EXTENDED"}


def test_network_plugin_enforces_policies_and_claimed_volumes_are_tagged() -> None:
    values = {a.inputs["addonName"]: a.inputs.get("configurationValues") for a in cluster().of("Addon")}
    assert json.loads(values.pop("vpc-cni")) == {"enableNetworkPolicy": "true"}
    volumes = json.loads(values.pop("aws-ebs-csi-driver"))
    assert volumes == {"controller": {"extraVolumeTags": {"team": "ml"}}}
    assert set(values.values()) == {None}


def test_removing_one_admin_keeps_the_resource_names_of_the_others() -> None:
    platform, oncall = (f"arn:aws:iam::123456789012:role/{role}" for role in ("platform", "oncall"))
    both = {entry.name for entry in cluster(admins=[platform, oncall]).of("AccessEntry")}
    assert {entry.name for entry in cluster(admins=[oncall]).of("AccessEntry")} < both


def test_secrets_are_encrypted_with_a_rotated_key() -> None:
    built = cluster()
    encryption = built.one("aws:eks/cluster:Cluster").inputs["encryptionConfig"]
    assert encryption["resources"] == ["secrets"]
    assert encryption["provider"]["keyArn"].endswith("Key/eks")
    assert built.one("Key").inputs["enableKeyRotation"] is True


def test_every_control_plane_log_goes_to_an_encrypted_group_created_first() -> None:
    built = cluster()
    control = built.one("aws:eks/cluster:Cluster")
    assert set(control.inputs["enabledClusterLogTypes"]) == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }
    group = built.one("LogGroup")
    assert group.inputs["name"] == "/aws/eks/atlas/cluster"
    assert group.inputs["retentionInDays"] == 365
    assert "kmsKeyId" in group.inputs
    assert group.urn in control.dependencies


def test_access_uses_entries_only() -> None:
    assert control_plane()["accessConfig"]["authenticationMode"] == "API"


def test_each_admin_gets_an_entry_and_the_admin_policy() -> None:
    built = cluster(admins=["arn:aws:iam::123456789012:role/platform"])
    assert built.one("AccessEntry").inputs["tags"]["team"] == "ml"
    assert built.one("AccessEntry").inputs["principalArn"].endswith("role/platform")
    association = built.one("AccessPolicyAssociation").inputs
    assert association["policyArn"].endswith("AmazonEKSClusterAdminPolicy")
    assert association["accessScope"] == {"type": "cluster"}
    assert cluster().of("AccessEntry") == cluster().of("AccessPolicyAssociation") == []


def test_cluster_is_protected_from_deletion_by_default() -> None:
    assert control_plane()["deletionProtection"] is True
    assert control_plane(deletion_protection=False)["deletionProtection"] is False


def test_system_nodes_have_no_gpu_image_and_wait_for_their_add_ons() -> None:
    built = cluster()
    nodes = built.one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["amiType"] == "AL2023_x86_64_STANDARD"
    assert "taints" not in nodes.inputs or nodes.inputs["taints"] == []
    (interface,) = built.one("LaunchTemplate").inputs["networkInterfaces"]
    assert interface["securityGroups"] == ["sg-cluster"]
    first = {a.urn for a in built.of("Addon") if a.inputs["addonName"] in ("vpc-cni", "kube-proxy")}
    assert first <= set(nodes.dependencies)


def test_add_ons_that_run_on_nodes_wait_for_the_system_nodes() -> None:
    built = cluster()
    nodes = built.one("aws:eks/nodeGroup:NodeGroup").urn
    by_name = {a.inputs["addonName"]: a for a in built.of("Addon")}
    assert nodes in by_name["coredns"].dependencies
    assert nodes in by_name["aws-ebs-csi-driver"].dependencies


def test_lustre_driver_is_installed_only_with_lustre() -> None:
    names = {a.inputs["addonName"] for a in cluster().of("Addon")}
    assert "aws-fsx-csi-driver" not in names
    assert "aws-fsx-csi-driver" in {
        a.inputs["addonName"] for a in cluster(addons=[*EKS_ADDONS, LUSTRE_ADDON]).of("Addon")
    }


def test_driver_of_buckets_is_installed_without_a_role_of_its_own() -> None:
    without, built = cluster(), cluster(addons=[*EKS_ADDONS, BUCKET_ADDON])
    (driver,) = [a for a in built.of("Addon") if a.inputs["addonName"] == BUCKET_ADDON]
    assert built.one("aws:eks/nodeGroup:NodeGroup").urn in driver.dependencies
    assert {a.inputs["addonName"] for a in without.of("Addon")} == set(EKS_ADDONS)
    assert len(built.of("PodIdentityAssociation")) == len(without.of("PodIdentityAssociation"))


def test_unlisted_add_ons_are_not_installed() -> None:
    built = cluster(addons=["kube-proxy"], log_types=["audit"])
    assert {a.inputs["addonName"] for a in built.of("Addon")} == {"kube-proxy"}
    assert built.one("aws:eks/cluster:Cluster").inputs["enabledClusterLogTypes"] == ["audit"]


def test_unknown_add_on_is_refused() -> None:
    with pytest.raises(InputError, match="cert-manager"):
        cluster(addons=["cert-manager"])


def test_lustre_driver_can_only_read_tags_of_file_systems() -> None:
    policy = json.loads(cluster(addons=[*EKS_ADDONS, LUSTRE_ADDON]).one("RolePolicy").inputs["policy"])
    resources = {tuple(s["Action"]): s["Resource"] for s in policy["Statement"]}
    assert resources == {
        ("fsx:DescribeFileSystems",): "*",  # the action knows no resources
        ("fsx:ListTagsForResource",): "arn:aws:fsx:us-east-1:123456789012:file-system/*",
    }


def test_default_eks_add_ons_are_not_installed_twice() -> None:
    assert control_plane()["bootstrapSelfManagedAddons"] is False


def test_given_add_on_version_is_used_and_others_are_not_pinned() -> None:
    built = cluster(addon_versions={"coredns": "v1.13.2-eksbuild.1"})
    versions = {a.inputs["addonName"]: a.inputs.get("addonVersion") for a in built.of("Addon")}
    assert versions.pop("coredns") == "v1.13.2-eksbuild.1"
    assert set(versions.values()) == {None}


def test_kubeconfig_has_no_secret_and_gets_a_token_from_aws() -> None:
    config = json.loads(kubeconfig("atlas", "https://eks.test", "Q0E=", "us-east-1"))
    (user,) = config["users"]
    assert user["user"]["exec"]["args"] == [
        "--region",
        "us-east-1",
        "eks",
        "get-token",
        "--cluster-name",
        "atlas",
    ]
    assert "token" not in user["user"]
    assert config["clusters"][0]["cluster"]["certificate-authority-data"] == "Q0E="


def test_kubeconfig_is_a_secret_output() -> None:
    built = cluster()
    outputs = built.outputs[built.one("EksCluster").urn]
    assert "4dabf18193072939515e22adb298388d" in outputs["kubeconfig"]
