from __future__ import annotations

from typing import Any


def test_add_on_is_created_updated_and_deleted(aws: Any, cluster: Any, role: str, refused: Any) -> None:
    eks = aws("eks")
    name = {"clusterName": "atlas", "addonName": "vpc-cni"}
    made = eks.create_addon(
        **name,
        configurationValues='{"enableNetworkPolicy": "true"}',
        podIdentityAssociations=[{"serviceAccount": "aws-node", "roleArn": role}],
        tags={"fleet": "atlas"},
    )["addon"]
    assert made["status"] == "CREATING"
    eks.get_waiter("addon_active").wait(**name)
    found = eks.describe_addon(**name)["addon"]
    assert (found["status"], found["tags"]) == ("ACTIVE", {"fleet": "atlas"})
    assert found["configurationValues"] == '{"enableNetworkPolicy": "true"}'
    assert "serviceAccountRoleArn" not in found
    (association,) = eks.list_pod_identity_associations(clusterName="atlas")["associations"]
    assert found["podIdentityAssociations"] == [association["associationArn"]]
    assert association["ownerArn"] == found["addonArn"]
    with refused("ResourceInUseException"):
        eks.create_addon(**name)
    with refused("InvalidParameterException"):
        eks.create_addon(clusterName="atlas", addonName="no-such-addon")
    with refused("InvalidParameterException"):
        eks.update_addon(**name, addonVersion="latest")
    update = eks.update_addon(**name, addonVersion="v1.99.0-eksbuild.1", resolveConflicts="OVERWRITE")[
        "update"
    ]
    assert eks.describe_update(name="atlas", addonName="vpc-cni", updateId=update["id"])
    found = eks.describe_addon(**name)["addon"]
    assert found["addonVersion"] == "v1.99.0-eksbuild.1"
    assert found["configurationValues"] == '{"enableNetworkPolicy": "true"}'
    assert eks.list_addons(clusterName="atlas")["addons"] == ["vpc-cni"]
    eks.delete_addon(**name)
    eks.get_waiter("addon_deleted").wait(**name)
    assert eks.list_addons(clusterName="atlas")["addons"] == []
    assert eks.list_pod_identity_associations(clusterName="atlas")["associations"] == []


def test_kube_proxy_is_of_the_clusters_version(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    version = eks.describe_cluster(name="atlas")["cluster"]["version"]
    name = {"clusterName": "atlas", "addonName": "kube-proxy"}
    with refused("InvalidParameterException"):
        eks.create_addon(**name, addonVersion="v1.20.1-eksbuild.1")
    eks.create_addon(**name, addonVersion=f"v{version}.1-eksbuild.1")
    with refused("InvalidParameterException"):
        eks.update_addon(**name, addonVersion="v1.20.1-eksbuild.1")
    eks.delete_addon(**name)


def test_versions_of_an_add_on_are_listed(aws: Any) -> None:
    (addon,) = aws("eks").describe_addon_versions(addonName="coredns", kubernetesVersion="1.34")["addons"]
    version = addon["addonVersions"][0]
    assert version["compatibilities"][0]["defaultVersion"] is True
    answer = aws("eks").describe_addon_configuration(
        addonName="coredns", addonVersion=version["addonVersion"]
    )
    assert answer["configurationSchema"].startswith("{")
    assert aws("eks").describe_addon_versions(addonName="none")["addons"] == []


ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


def test_access_entry_is_created_updated_and_deleted(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    entry = {"clusterName": "atlas", "principalArn": "arn:aws:iam::123456789012:role/admins"}
    made = eks.create_access_entry(**entry, kubernetesGroups=["admins"], tags={"fleet": "atlas"})[
        "accessEntry"
    ]
    assert made["username"] == "arn:aws:sts::123456789012:assumed-role/admins/{{SessionName}}"
    assert eks.describe_access_entry(**entry)["accessEntry"] == made
    eks.update_access_entry(**entry, kubernetesGroups=["viewers"], username="someone")
    found = eks.describe_access_entry(**entry)["accessEntry"]
    assert (found["kubernetesGroups"], found["username"]) == (["viewers"], "someone")
    with refused("ResourceInUseException"):
        eks.create_access_entry(**entry)

    eks.associate_access_policy(**entry, policyArn=ADMIN, accessScope={"type": "cluster"})
    eks.associate_access_policy(
        **entry, policyArn=VIEW, accessScope={"type": "namespace", "namespaces": ["team-a"]}
    )
    policies = eks.list_associated_access_policies(**entry)["associatedAccessPolicies"]
    assert [(one["policyArn"], one["accessScope"]["type"]) for one in policies] == [
        (ADMIN, "cluster"),
        (VIEW, "namespace"),
    ]
    with_admin = eks.list_access_entries(clusterName="atlas", associatedPolicyArn=ADMIN)["accessEntries"]
    assert with_admin == [entry["principalArn"]]
    with refused("ResourceNotFoundException"):
        eks.associate_access_policy(**entry, policyArn=ADMIN + "X", accessScope={"type": "cluster"})
    with refused("InvalidParameterException"):
        eks.associate_access_policy(**entry, policyArn=VIEW, accessScope={"type": "namespace"})
    eks.disassociate_access_policy(**entry, policyArn=ADMIN)
    with refused("ResourceNotFoundException"):
        eks.disassociate_access_policy(**entry, policyArn=ADMIN)
    assert ADMIN in {one["arn"] for one in eks.list_access_policies()["accessPolicies"]}
    eks.delete_access_entry(**entry)
    assert entry["principalArn"] not in eks.list_access_entries(clusterName="atlas")["accessEntries"]
    with refused("ResourceNotFoundException"):
        eks.describe_access_entry(**entry)


def test_access_entries_of_nodes_accept_no_groups_and_policies(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    entry = {"clusterName": "atlas", "principalArn": "arn:aws:iam::123456789012:role/self-managed"}
    with refused("InvalidParameterException"):
        eks.create_access_entry(**entry, type="EC2_LINUX", kubernetesGroups=["x"])
    made = eks.create_access_entry(**entry, type="EC2_LINUX")["accessEntry"]
    assert made["kubernetesGroups"] == ["system:nodes"]
    with refused("InvalidRequestException"):
        eks.associate_access_policy(**entry, policyArn=VIEW, accessScope={"type": "cluster"})
    eks.delete_access_entry(**entry)


def test_config_map_cluster_refuses_access_entries_and_others_admit_the_creator(
    aws: Any, network: Any, role: str, refused: Any
) -> None:
    eks = aws("eks")
    for name, config in (("old", None), ("new", {"authenticationMode": "API"})):
        more = {"accessConfig": config} if config else {}
        eks.create_cluster(
            name=name, roleArn=role, resourcesVpcConfig={"subnetIds": list(network.subnets)}, **more
        )
    with refused("InvalidRequestException"):
        eks.create_access_entry(clusterName="old", principalArn=role)
    creator = "arn:aws:iam::123456789012:user/moto"
    with refused("InvalidRequestException"):
        eks.list_access_entries(clusterName="old")
    assert eks.list_access_entries(clusterName="new")["accessEntries"] == [creator]
    groups = {eks.describe_cluster(name=n)["cluster"]["identity"]["oidc"]["issuer"] for n in ("old", "new")}
    assert len(groups) == 2, "each cluster has an issuer of its own"
    for name in ("old", "new"):
        eks.delete_cluster(name=name)
    left = aws("ec2").describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])
    names = {one["GroupName"] for one in left["SecurityGroups"]}
    assert not any(name.startswith(("eks-cluster-sg-old", "eks-cluster-sg-new")) for name in names)


def test_pod_identity_association_is_created_updated_and_deleted(
    aws: Any, cluster: Any, role: str, refused: Any
) -> None:
    eks = aws("eks")
    account = {"clusterName": "atlas", "namespace": "kube-system", "serviceAccount": "fsx-csi"}
    made = eks.create_pod_identity_association(**account, roleArn=role, tags={"fleet": "atlas"})[
        "association"
    ]
    name = {"clusterName": "atlas", "associationId": made["associationId"]}
    assert eks.describe_pod_identity_association(**name)["association"] == made
    assert "ownerArn" not in made and "targetRoleArn" not in made
    with refused("ResourceInUseException"):
        eks.create_pod_identity_association(**account, roleArn=role)
    other = role.replace("node", "other")
    eks.update_pod_identity_association(**name, roleArn=other, targetRoleArn=role)
    found = eks.describe_pod_identity_association(**name)["association"]
    assert (found["roleArn"], found["targetRoleArn"]) == (other, role)
    assert found["externalId"]
    listed = eks.list_pod_identity_associations(clusterName="atlas", namespace="kube-system")["associations"]
    assert [one["associationId"] for one in listed] == [made["associationId"]]
    assert eks.list_pod_identity_associations(clusterName="atlas", namespace="x")["associations"] == []
    eks.tag_resource(resourceArn=made["associationArn"], tags={"late": "yes"})
    assert eks.list_tags_for_resource(resourceArn=made["associationArn"])["tags"]["late"] == "yes"
    eks.delete_pod_identity_association(**name)
    with refused("ResourceNotFoundException"):
        eks.describe_pod_identity_association(**name)
