"""The same operations without a server: moto in this process."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.core import utils
from moto.core.responses import BaseResponse

from gpufleet.lab.aws import backends
from gpufleet.lab.aws.backends.operation import REGISTRY, attach, operation
from gpufleet.lab.aws.server import caches


@pytest.fixture
def local() -> Any:
    def client(service: str) -> Any:
        return boto3.client(
            service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
        )

    return client


def test_operations_missing_in_moto_work_under_mock_aws(local: Any) -> None:
    backends.install()
    with mock_aws():
        made = local("ec2").create_placement_group(GroupName="train", Strategy="cluster")["PlacementGroup"]
        assert local("ec2").describe_placement_groups()["PlacementGroups"] == [made]
        iam, ec2 = local("iam"), local("ec2")
        role = iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        subnets = [one["SubnetId"] for one in ec2.describe_subnets()["Subnets"]][:2]
        local("eks").create_cluster(name="atlas", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
        local("eks").create_addon(clusterName="atlas", addonName="coredns")
        assert local("eks").list_addons(clusterName="atlas")["addons"] == ["coredns"]
        quota = {"ServiceCode": "ec2", "QuotaCode": "L-417A185B"}
        assert local("service-quotas").get_service_quota(**quota)["Quota"]["Value"] > 0


def test_each_mock_starts_with_an_empty_account(local: Any) -> None:
    backends.install("ec2")
    for _ in range(2):
        with mock_aws():
            assert local("ec2").describe_placement_groups()["PlacementGroups"] == []
            local("ec2").create_placement_group(GroupName="train", Strategy="cluster")


def test_service_that_was_used_before_gets_the_operations() -> None:
    class Response(BaseResponse):
        pass

    caches.cache_moto()
    backends.install("ec2")
    assert "create_placement_group" not in utils.method_names_from_class(Response)
    attach(Response, "ec2")
    assert "create_placement_group" in utils.method_names_from_class(Response)


def test_installing_twice_changes_nothing() -> None:
    from moto.ec2.responses import EC2Response

    backends.install()
    first = EC2Response.create_placement_group
    backends.install("ec2")
    backends.install()
    assert EC2Response.create_placement_group is first


def test_every_operation_exists_in_aws() -> None:
    from moto.core.utils import get_service_model

    backends.install()
    names = {"servicequotas": "service-quotas", "resourcegroups": "resource-groups"}
    # That of S3 replaces a part of moto, and no operation.
    assert set(REGISTRY) == set(backends.SERVICES) - {"s3"}
    for service, handlers in REGISTRY.items():
        known = set(get_service_model(names.get(service, service)).operation_names)
        assert set(handlers) <= known, service


def test_operation_cannot_be_registered_twice() -> None:
    backends.install("ec2")
    with pytest.raises(ValueError, match="registered twice"):
        operation("ec2", "CreatePlacementGroup")(lambda _: {})
