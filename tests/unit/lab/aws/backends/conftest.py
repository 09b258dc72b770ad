"""One sandbox server for all tests of the emulated APIs, emptied before each module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY

ACCOUNT = "123456789012"
Refused = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(scope="session")
def sandbox_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("sandbox")
    yield root
    daemon.stop(root)


@pytest.fixture(scope="module")
def endpoint(sandbox_root: Path) -> daemon.Endpoint:
    found = daemon.ensure(sandbox_root)
    daemon.reset(sandbox_root)
    return found


@pytest.fixture(scope="module")
def aws(endpoint: daemon.Endpoint) -> Callable[..., Any]:
    """`aws("ec2")` is a client of the sandbox."""
    session = botocore.session.Session()
    made: dict[tuple[str, str], Any] = {}

    def client(service: str, region: str = "us-east-1") -> Any:
        if (service, region) not in made:
            made[service, region] = session.create_client(
                service,
                region_name=region,
                endpoint_url=endpoint.url,
                aws_access_key_id=ACCESS_KEY_ID,
                aws_secret_access_key=SECRET_ACCESS_KEY,
                config=Config(retries={"total_max_attempts": 1}, proxies={}),
            )
        return made[service, region]

    return client


@pytest.fixture(scope="session")
def refused() -> Refused:
    """`with refused("Code"):` expects AWS's error with exactly that code."""

    @contextmanager
    def expect(code: str) -> Iterator[None]:
        with pytest.raises(ClientError) as caught:
            yield
        assert caught.value.response["Error"]["Code"] == code, str(caught.value)

    return expect


@dataclass(frozen=True)
class Network:
    """A VPC with a subnet in each of us-east-1a and us-east-1b, and a security group."""

    vpc: str
    subnets: tuple[str, str]
    group: str


@pytest.fixture(scope="module")
def network(aws: Callable[..., Any]) -> Network:
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"us-east-1{zone}")
        for i, zone in enumerate("ab")
    ]
    group = ec2.create_security_group(GroupName="efa", Description="EFA", VpcId=vpc)["GroupId"]
    first, second = (one["Subnet"]["SubnetId"] for one in subnets)
    return Network(vpc, (first, second), group)


@pytest.fixture(scope="module")
def role(aws: Callable[..., Any]) -> str:
    document = '{"Version": "2012-10-17", "Statement": []}'
    arn: str = aws("iam").create_role(RoleName="node", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    return arn


@pytest.fixture(scope="module")
def key(aws: Any) -> str:
    arn: str = aws("kms").create_key()["KeyMetadata"]["Arn"]
    return arn


@pytest.fixture(scope="module")
def cluster(aws: Any, network: Any, role: str, key: str) -> Any:
    made = aws("eks").create_cluster(
        name="atlas",
        version="1.33",
        roleArn=role,
        resourcesVpcConfig={
            "subnetIds": list(network.subnets),
            "endpointPrivateAccess": True,
            "endpointPublicAccess": False,
        },
        accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
        encryptionConfig=[{"resources": ["secrets"], "provider": {"keyArn": key}}],
        logging={"clusterLogging": [{"types": ["audit", "api"], "enabled": True}]},
        tags={"fleet": "atlas"},
    )["cluster"]
    aws("eks").get_waiter("cluster_active").wait(name="atlas")
    return made


def tags(resource_type: str, **values: str) -> list[dict[str, Any]]:
    """EC2's TagSpecifications."""
    return [{"ResourceType": resource_type, "Tags": [{"Key": k, "Value": v} for k, v in values.items()]}]


@pytest.fixture(scope="session", name="tags")
def tags_fixture() -> Callable[..., list[dict[str, Any]]]:
    return tags
