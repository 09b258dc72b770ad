"""EFS: file systems, and their addresses in subnets."""

from __future__ import annotations

import uuid
from typing import ClassVar

from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler
from gpufleet.lab.aws.provider.mapper import tag_list
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.wire import Props

TIMEOUT_S = 600.0


class FileSystem(Handler):
    """aws.efs.FileSystem."""

    pulumi_type = "aws:efs/fileSystem:FileSystem"
    force_new = frozenset({
        "availabilityZoneName", "creationToken", "encrypted", "kmsKeyId", "performanceMode",
    })  # fmt: skip
    computed = frozenset({
        "availabilityZoneName", "creationToken", "kmsKeyId", "performanceMode", "protection",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"throughputMode": "bursting"}

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the file system and wait until it is available."""
        optional = {
            "KmsKeyId": inputs.get("kmsKeyId"),
            "PerformanceMode": inputs.get("performanceMode"),
            "ThroughputMode": inputs.get("throughputMode"),
            "ProvisionedThroughputInMibps": inputs.get("provisionedThroughputInMibps"),
            "AvailabilityZoneName": inputs.get("availabilityZoneName"),
            "Tags": tag_list(inputs.get("tags") or {}) or None,
        }
        made = aws.client("efs").create_file_system(
            CreationToken=inputs.get("creationToken") or f"terraform-{uuid.uuid4().hex}",
            Encrypted=bool(inputs.get("encrypted")),
            **{key: value for key, value in optional.items() if value is not None},
        )
        rid = str(made["FileSystemId"])
        with keep_on_failure(rid):
            self._await(aws, rid)
        return rid

    def _await(self, aws: Aws, rid: str) -> None:
        await_state(
            lambda: self._find(aws, rid), "LifeCycleState", {"available"}, timeout_s=TIMEOUT_S, what=rid
        )

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(aws.client("efs").describe_file_systems, "FileSystems", FileSystemId=rid)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The file system as described."""
        found = self._find(aws, rid)
        if found is None:
            return None
        return {
            "arn": found["FileSystemArn"],
            "availabilityZoneName": found.get("AvailabilityZoneName"),
            "creationToken": found["CreationToken"],
            "dnsName": f"{rid}.efs.{aws.region}.amazonaws.com",
            "encrypted": bool(found.get("Encrypted")),
            "kmsKeyId": found.get("KmsKeyId"),
            "name": found.get("Name", ""),
            "numberOfMountTargets": found.get("NumberOfMountTargets", 0),
            "ownerId": found.get("OwnerId"),
            "performanceMode": found.get("PerformanceMode"),
            "throughputMode": found.get("ThroughputMode"),
            "provisionedThroughputInMibps": found.get("ProvisionedThroughputInMibps"),
            "tags": {each["Key"]: each["Value"] for each in found.get("Tags") or ()},
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change throughput and tags."""
        efs = aws.client("efs")
        if changed & {"throughputMode", "provisionedThroughputInMibps"}:
            more = new.get("provisionedThroughputInMibps")
            efs.update_file_system(
                FileSystemId=rid,
                ThroughputMode=new["throughputMode"],
                **({"ProvisionedThroughputInMibps": more} if more is not None else {}),
            )
            self._await(aws, rid)
        retag(efs, {"ResourceId": rid}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the file system and wait until it is gone."""
        efs = aws.client("efs")
        remove(lambda: efs.delete_file_system(FileSystemId=rid), lambda: self._find(aws, rid), rid)


class MountTarget(Handler):
    """aws.efs.MountTarget: the file system's address in a subnet."""

    pulumi_type = "aws:efs/mountTarget:MountTarget"
    force_new = frozenset({"fileSystemId", "ipAddress", "subnetId"})
    computed = frozenset({"ipAddress", "securityGroups"})
    # A file system has one in each zone.
    delete_before_replace = True
    takes_default_tags = False

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the address and wait until clients may mount by it. A file system has one in a zone, so that
        one that an interrupted run made is this resource."""
        system, subnet = inputs["fileSystemId"], inputs["subnetId"]
        efs = aws.client("efs")
        for each in efs.describe_mount_targets(FileSystemId=system)["MountTargets"]:
            if each["SubnetId"] == subnet:
                return str(each["MountTargetId"])
        address = inputs.get("ipAddress")
        made = efs.create_mount_target(
            FileSystemId=system,
            SubnetId=subnet,
            SecurityGroups=inputs.get("securityGroups") or [],
            **({"IpAddress": address} if address else {}),
        )
        rid = str(made["MountTargetId"])
        with keep_on_failure(rid):
            await_state(
                lambda: self._find(aws, rid), "LifeCycleState", {"available"}, timeout_s=TIMEOUT_S, what=rid
            )
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(aws.client("efs").describe_mount_targets, "MountTargets", MountTargetId=rid)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The address with its security groups."""
        found = self._find(aws, rid)
        if found is None:
            return None
        efs = aws.client("efs")
        try:
            groups = efs.describe_mount_target_security_groups(MountTargetId=rid)["SecurityGroups"]
        except Exception as error:
            if is_missing(error):
                return None
            raise
        system, zone = found["FileSystemId"], found.get("AvailabilityZoneName")
        return {
            "availabilityZoneName": found.get("AvailabilityZoneName"),
            "availabilityZoneId": found.get("AvailabilityZoneId"),
            "dnsName": f"{system}.efs.{aws.region}.amazonaws.com",
            "fileSystemArn": aws.arn("elasticfilesystem", f"file-system/{system}"),
            "fileSystemId": system,
            "ipAddress": found["IpAddress"],
            "mountTargetDnsName": f"{zone}.{system}.efs.{aws.region}.amazonaws.com",
            "networkInterfaceId": found.get("NetworkInterfaceId"),
            "ownerId": found.get("OwnerId"),
            "securityGroups": groups,
            "subnetId": found["SubnetId"],
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the security groups."""
        if "securityGroups" in changed:
            aws.client("efs").modify_mount_target_security_groups(
                MountTargetId=rid, SecurityGroups=new["securityGroups"]
            )

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the address and wait until it is gone."""
        efs = aws.client("efs")
        remove(lambda: efs.delete_mount_target(MountTargetId=rid), lambda: self._find(aws, rid), rid)


HANDLERS = (FileSystem(), MountTarget())
