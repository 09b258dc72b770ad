from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def make(aws: Any, network: Any) -> Any:
    def create(capacity: int | None = 1200, **more: Any) -> Any:
        lustre = more.pop("lustre", {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250})
        size = {} if capacity is None else {"StorageCapacity": capacity}
        return aws("fsx").create_file_system(
            FileSystemType="LUSTRE",
            SubnetIds=[network.subnets[0]],
            LustreConfiguration=lustre,
            **size,
            **more,
        )["FileSystem"]

    return create


@pytest.fixture
def file_system(aws: Any, make: Any) -> Iterator[str]:
    made: str = make()["FileSystemId"]
    yield made
    aws("fsx").delete_file_system(FileSystemId=made)


def _described(aws: Any, file_system: str) -> Any:
    return aws("fsx").describe_file_systems(FileSystemIds=[file_system])["FileSystems"][0]


def test_file_system_description_has_the_input_and_the_fsx_defaults(
    aws: Any, make: Any, network: Any, refused: Any
) -> None:
    fsx, ec2 = aws("fsx"), aws("ec2")
    made = make(
        38400,
        SecurityGroupIds=[network.group],
        KmsKeyId="arn:aws:kms:us-east-1:123456789012:key/1",
        Tags=[{"Key": "fleet", "Value": "atlas"}],
        lustre={
            "DeploymentType": "PERSISTENT_2",
            "PerUnitStorageThroughput": 125,
            "EfaEnabled": True,
            "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000},
            "DataCompressionType": "LZ4",
            "LogConfiguration": {"Level": "WARN_ERROR"},
        },
    )
    assert made["Lifecycle"] == "CREATING"
    found = _described(aws, made["FileSystemId"])
    assert (found["Lifecycle"], found["StorageCapacity"], found["VpcId"]) == ("AVAILABLE", 38400, network.vpc)
    assert found["Tags"] == [{"Key": "fleet", "Value": "atlas"}]
    lustre = found["LustreConfiguration"]
    assert (lustre["EfaEnabled"], lustre["DataCompressionType"]) == (True, "LZ4")
    assert lustre["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 12000}
    assert len(lustre["MountName"]) == 8
    assert found["DNSName"].startswith(made["FileSystemId"])
    (interface,) = ec2.describe_network_interfaces(NetworkInterfaceIds=found["NetworkInterfaceIds"])[
        "NetworkInterfaces"
    ]
    assert [one["GroupId"] for one in interface["Groups"]] == [network.group]
    with refused("DependencyViolation"):
        ec2.delete_subnet(SubnetId=network.subnets[0])
    arn = found["ResourceARN"]
    fsx.tag_resource(ResourceARN=arn, Tags=[{"Key": "late", "Value": "yes"}])
    fsx.untag_resource(ResourceARN=arn, TagKeys=["fleet"])
    assert fsx.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "late", "Value": "yes"}]
    with refused("BadRequest"):
        fsx.update_file_system(
            FileSystemId=made["FileSystemId"], LustreConfiguration={"PerUnitStorageThroughput": 250}
        )
    fsx.delete_file_system(FileSystemId=made["FileSystemId"])
    with refused("FileSystemNotFound"):
        _described(aws, made["FileSystemId"])
    with refused("InvalidNetworkInterfaceID.NotFound"):
        ec2.describe_network_interfaces(NetworkInterfaceIds=found["NetworkInterfaceIds"])


def test_file_system_only_grows_and_an_update_keeps_other_fields(
    aws: Any, file_system: str, refused: Any
) -> None:
    fsx = aws("fsx")
    fsx.update_file_system(
        FileSystemId=file_system,
        StorageCapacity=4800,
        LustreConfiguration={"DataCompressionType": "LZ4", "PerUnitStorageThroughput": 500},
    )
    found = _described(aws, file_system)
    lustre = found["LustreConfiguration"]
    assert (found["StorageCapacity"], lustre["DataCompressionType"]) == (4800, "LZ4")
    assert (lustre["PerUnitStorageThroughput"], lustre["DeploymentType"]) == (500, "PERSISTENT_2")
    assert found["AdministrativeActions"][0]["Status"] == "COMPLETED"
    for wrong in (4800, 2400, 5000):
        with refused("BadRequest"):
            fsx.update_file_system(FileSystemId=file_system, StorageCapacity=wrong)
    with refused("BadRequest"):
        fsx.update_file_system(
            FileSystemId=file_system, LustreConfiguration={"PerUnitStorageThroughput": 300}
        )


def test_persistent_1_changes_its_throughput_on_ssd_and_not_on_hdd(aws: Any, make: Any, refused: Any) -> None:
    fsx = aws("fsx")
    older = {"DeploymentType": "PERSISTENT_1"}
    ssd = make(lustre={**older, "PerUnitStorageThroughput": 50})["FileSystemId"]
    fsx.update_file_system(FileSystemId=ssd, LustreConfiguration={"PerUnitStorageThroughput": 200})
    assert _described(aws, ssd)["LustreConfiguration"]["PerUnitStorageThroughput"] == 200
    with refused("BadRequest"):
        fsx.update_file_system(FileSystemId=ssd, LustreConfiguration={"PerUnitStorageThroughput": 125})
    hdd = make(6000, StorageType="HDD", lustre={**older, "PerUnitStorageThroughput": 12})["FileSystemId"]
    with refused("BadRequest"):
        fsx.update_file_system(FileSystemId=hdd, LustreConfiguration={"PerUnitStorageThroughput": 40})
    for made in (ssd, hdd):
        fsx.delete_file_system(FileSystemId=made)


P2 = {"DeploymentType": "PERSISTENT_2"}
EFA = {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}}


@pytest.mark.parametrize(
    ("capacity", "lustre"),
    [
        (1200, {**P2, "PerUnitStorageThroughput": 125}),
        (2400, {**P2, "PerUnitStorageThroughput": 1000}),
        (1200, {"DeploymentType": "SCRATCH_2"}),
        (7200, {"DeploymentType": "SCRATCH_2"}),
        (3600, {"DeploymentType": "SCRATCH_1"}),
        (9600, {**P2, **EFA, "PerUnitStorageThroughput": 500}),
        (4800, {**P2, **EFA, "PerUnitStorageThroughput": 1000}),
    ],
)
def test_valid_sizes_are_accepted(
    aws: Any, make: Any, network: Any, capacity: int, lustre: dict[str, Any]
) -> None:
    made = make(capacity, lustre=lustre, SecurityGroupIds=[network.group])
    assert made["StorageCapacity"] == capacity
    aws("fsx").delete_file_system(FileSystemId=made["FileSystemId"])


@pytest.mark.parametrize(
    ("capacity", "lustre"),
    [
        (3600, {**P2, "PerUnitStorageThroughput": 125}),
        (None, {**P2, "PerUnitStorageThroughput": 125}),
        (1200, P2),
        (1200, {**P2, "PerUnitStorageThroughput": 200}),
        (1200, {"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": 125}),
        (2400, {**P2, **EFA, "PerUnitStorageThroughput": 125}),
        (1200, {**P2, **EFA, "PerUnitStorageThroughput": 1000}),
        (38400, {**P2, "EfaEnabled": True, "PerUnitStorageThroughput": 125}),
        (4800, {"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 100, **EFA}),
    ],
    ids=[
        "not in increments",
        "none",
        "no throughput",
        "no such throughput",
        "throughput on scratch",
        "efa at 125",
        "efa at 1000",
        "efa without metadata",
        "efa on persistent 1",
    ],
)
def test_invalid_sizes_are_refused(
    make: Any, network: Any, refused: Any, capacity: int | None, lustre: dict[str, Any]
) -> None:
    with refused("BadRequest"):
        make(capacity, lustre=lustre, SecurityGroupIds=[network.group])


def test_missing_network_is_refused(aws: Any, make: Any, network: Any, refused: Any) -> None:
    with refused("InvalidNetworkSettings"):
        make(SecurityGroupIds=["sg-00000000000000000"])
    with refused("InvalidNetworkSettings"):
        aws("fsx").create_file_system(
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=list(network.subnets),
            LustreConfiguration={"DeploymentType": "SCRATCH_2"},
        )


@pytest.fixture(scope="module")
def bucket(aws: Any) -> str:
    aws("s3").create_bucket(Bucket="atlas-data")
    return "s3://atlas-data"


def test_association_is_created_updated_and_deleted(
    aws: Any, file_system: str, bucket: str, refused: Any
) -> None:
    fsx = aws("fsx")
    made = fsx.create_data_repository_association(
        FileSystemId=file_system,
        FileSystemPath="/data",
        DataRepositoryPath=f"{bucket}/train",
        BatchImportMetaDataOnCreate=True,
        S3={"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}},
        Tags=[{"Key": "fleet", "Value": "atlas"}],
    )["Association"]
    assert made["Lifecycle"] == "CREATING"
    name = {"AssociationIds": [made["AssociationId"]]}
    (found,) = fsx.describe_data_repository_associations(**name)["Associations"]
    assert (found["Lifecycle"], found["FileSystemPath"]) == ("AVAILABLE", "/data")
    assert found["S3"] == {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}}
    assert found["Tags"] == [{"Key": "fleet", "Value": "atlas"}]
    assert "FailureDetails" not in found
    fsx.update_data_repository_association(
        AssociationId=made["AssociationId"],
        ImportedFileChunkSize=2048,
        S3={"AutoExportPolicy": {"Events": ["NEW"]}},
    )
    (found,) = fsx.describe_data_repository_associations(**name)["Associations"]
    assert (found["ImportedFileChunkSize"], found["S3"]) == (2048, {"AutoExportPolicy": {"Events": ["NEW"]}})
    for path in ("/data", "/data/deeper", "/"):
        with refused("BadRequest"):
            fsx.create_data_repository_association(
                FileSystemId=file_system, FileSystemPath=path, DataRepositoryPath=bucket
            )
    filters = [{"Name": "file-system-id", "Values": [file_system]}]
    assert len(fsx.describe_data_repository_associations(Filters=filters)["Associations"]) == 1
    fsx.delete_data_repository_association(AssociationId=made["AssociationId"])
    assert fsx.describe_data_repository_associations(Filters=filters)["Associations"] == []
    with refused("DataRepositoryAssociationNotFound"):
        fsx.describe_data_repository_associations(**name)


def test_association_with_a_missing_bucket_is_misconfigured(aws: Any, file_system: str) -> None:
    fsx = aws("fsx")
    made = fsx.create_data_repository_association(
        FileSystemId=file_system, FileSystemPath="/lost", DataRepositoryPath="s3://no-such-bucket-here"
    )["Association"]["AssociationId"]
    (found,) = fsx.describe_data_repository_associations(AssociationIds=[made])["Associations"]
    assert found["Lifecycle"] == "MISCONFIGURED"
    assert "no-such-bucket-here" in found["FailureDetails"]["Message"]


def test_associations_are_deleted_with_their_file_system(aws: Any, make: Any, bucket: str) -> None:
    fsx = aws("fsx")
    made = make()["FileSystemId"]
    fsx.create_data_repository_association(FileSystemId=made, DataRepositoryPath=bucket)
    fsx.delete_file_system(FileSystemId=made)
    filters = [{"Name": "file-system-id", "Values": [made]}]
    assert fsx.describe_data_repository_associations(Filters=filters)["Associations"] == []


def test_file_system_with_automatic_backups_refuses_an_association(
    aws: Any, make: Any, bucket: str, refused: Any
) -> None:
    fsx = aws("fsx")
    lustre = {**P2, "PerUnitStorageThroughput": 125, "AutomaticBackupRetentionDays": 7}
    made = make(lustre=lustre)["FileSystemId"]
    with refused("BadRequest"):
        fsx.create_data_repository_association(FileSystemId=made, DataRepositoryPath=bucket)
    fsx.delete_file_system(FileSystemId=made)
