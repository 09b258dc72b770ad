from __future__ import annotations

from typing import Any


def _described(aws: Any) -> Any:
    return aws("eks").describe_cluster(name="atlas")["cluster"]


def test_cluster_description_has_the_input_and_the_eks_defaults(
    aws: Any, cluster: Any, network: Any, key: str
) -> None:
    found = _described(aws)
    assert found["status"] == "ACTIVE"
    assert found["accessConfig"]["authenticationMode"] == "API"
    assert found["encryptionConfig"] == [{"resources": ["secrets"], "provider": {"keyArn": key}}]
    vpc = found["resourcesVpcConfig"]
    assert (vpc["vpcId"], vpc["endpointPrivateAccess"], vpc["endpointPublicAccess"]) == (
        network.vpc,
        True,
        False,
    )
    assert vpc["publicAccessCidrs"] == []
    on = {t for one in found["logging"]["clusterLogging"] if one["enabled"] for t in one["types"]}
    assert on == {"api", "audit"}
    (group,) = aws("ec2").describe_security_groups(GroupIds=[vpc["clusterSecurityGroupId"]])["SecurityGroups"]
    assert group["VpcId"] == network.vpc
    assert {t["Key"] for t in group["Tags"]} == {"Name", "kubernetes.io/cluster/atlas"}
    assert cluster["identity"]["oidc"]["issuer"] == found["identity"]["oidc"]["issuer"]


def test_invalid_cluster_is_refused(aws: Any, network: Any, role: str, key: str, refused: Any) -> None:
    eks, subnets = aws("eks"), list(network.subnets)

    def make(**network_config: Any) -> None:
        config = {"subnetIds": subnets, **network_config}
        eks.create_cluster(name="never", roleArn=role, resourcesVpcConfig=config)

    with refused("InvalidParameterException"):
        make(subnetIds=subnets[:1])
    with refused("InvalidParameterException"):
        make(subnetIds=["subnet-00000000", *subnets])
    with refused("InvalidParameterException"):
        make(endpointPublicAccess=False, endpointPrivateAccess=False)
    with refused("InvalidParameterException"):
        eks.create_cluster(
            name="never",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": subnets},
            encryptionConfig=[{"resources": ["secrets"], "provider": {"keyArn": key + "0"}}],
        )
    assert "never" not in eks.list_clusters()["clusters"]


def test_cluster_settings_change_one_kind_at_a_time(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    update = eks.update_cluster_config(
        name="atlas", resourcesVpcConfig={"endpointPublicAccess": True, "publicAccessCidrs": ["192.0.2.0/24"]}
    )["update"]
    assert eks.describe_update(name="atlas", updateId=update["id"])["update"]["status"] == "Successful"
    vpc = _described(aws)["resourcesVpcConfig"]
    assert (vpc["publicAccessCidrs"], vpc["endpointPrivateAccess"]) == (["192.0.2.0/24"], True)
    eks.update_cluster_config(
        name="atlas", logging={"clusterLogging": [{"types": ["audit"], "enabled": False}]}
    )
    logging = _described(aws)["logging"]["clusterLogging"]
    assert [one["types"] for one in logging if one["enabled"]] == [["api"]]
    eks.update_cluster_config(name="atlas", upgradePolicy={"supportType": "STANDARD"})
    assert _described(aws)["upgradePolicy"] == {"supportType": "STANDARD"}
    with refused("InvalidParameterException"):
        eks.update_cluster_config(name="atlas", upgradePolicy={"supportType": "EXTENDED"}, logging={})
    with refused("InvalidParameterException"):
        eks.update_cluster_config(name="atlas", accessConfig={"authenticationMode": "CONFIG_MAP"})
    assert update["id"] in eks.list_updates(name="atlas")["updateIds"]
    with refused("ResourceNotFoundException"):
        eks.describe_update(name="atlas", updateId="none")


def test_cluster_upgrades_one_minor_version_at_a_time(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    for wrong in ("1.35", "1.32", "1.33"):
        with refused("InvalidParameterException"):
            eks.update_cluster_version(name="atlas", version=wrong)
    eks.update_cluster_version(name="atlas", version="1.34")
    assert _described(aws)["version"] == "1.34"


def test_encryption_of_secrets_can_be_enabled_once(
    aws: Any, network: Any, role: str, key: str, refused: Any
) -> None:
    eks = aws("eks")
    eks.create_cluster(name="plain", roleArn=role, resourcesVpcConfig={"subnetIds": list(network.subnets)})
    assert not eks.describe_cluster(name="plain")["cluster"].get("encryptionConfig")
    wanted = [{"resources": ["secrets"], "provider": {"keyArn": key}}]
    eks.associate_encryption_config(clusterName="plain", encryptionConfig=wanted)
    assert eks.describe_cluster(name="plain")["cluster"]["encryptionConfig"] == wanted
    with refused("InvalidRequestException"):
        eks.associate_encryption_config(clusterName="plain", encryptionConfig=wanted)
    eks.delete_cluster(name="plain")
    with refused("ResourceNotFoundException"):
        eks.list_addons(clusterName="plain")
