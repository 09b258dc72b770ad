"""Single instances, and addresses of a subnet that are kept from automatic use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler
from gpufleet.lab.aws.provider.mapper import tag_list
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag
from gpufleet.lab.aws.provider.wire import Props

TIMEOUT_S = 600.0
_METADATA = {
    "httpEndpoint": "HttpEndpoint",
    "httpTokens": "HttpTokens",
    "httpPutResponseHopLimit": "HttpPutResponseHopLimit",
    "instanceMetadataTags": "InstanceMetadataTags",
}
_VOLUME = {
    "volumeType": "VolumeType",
    "volumeSize": "VolumeSize",
    "iops": "Iops",
    "throughput": "Throughput",
    "encrypted": "Encrypted",
    "kmsKeyId": "KmsKeyId",
    "deleteOnTermination": "DeleteOnTermination",
}
_LAUNCH = {
    "ami": "ImageId",
    "disableApiTermination": "DisableApiTermination",
    "ebsOptimized": "EbsOptimized",
    "instanceInitiatedShutdownBehavior": "InstanceInitiatedShutdownBehavior",
    "instanceType": "InstanceType",
    "keyName": "KeyName",
    "privateIp": "PrivateIpAddress",
    "subnetId": "SubnetId",
    "userData": "UserData",
    "userDataBase64": "UserData",
    "vpcSecurityGroupIds": "SecurityGroupIds",
}
_TEMPLATE = {"id": "LaunchTemplateId", "name": "LaunchTemplateName", "version": "Version"}
_ENDED = ("shutting-down", "terminated")


class Instance(Handler):
    """aws.ec2.Instance with a root volume and one interface; other inputs are kept and have no effect."""

    pulumi_type = "aws:ec2/instance:Instance"
    force_new = frozenset({
        "ami", "associatePublicIpAddress", "privateIp", "subnetId", "userData", "rootBlockDevice.encrypted",
        "rootBlockDevice.kmsKeyId",
    })  # fmt: skip
    computed = frozenset({
        "ami", "associatePublicIpAddress", "availabilityZone", "cpuOptions", "ebsBlockDevices",
        "ephemeralBlockDevices", "instanceInitiatedShutdownBehavior", "metadataOptions", "privateIp",
        "rootBlockDevice", "securityGroups", "subnetId", "tenancy", "vpcSecurityGroupIds",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"getPasswordData": False, "sourceDestCheck": True}

    def create(self, aws: Aws, inputs: Props) -> str:
        """Launch the instance and wait until it runs."""
        root = inputs.get("rootBlockDevice") or {}
        tags = [("instance", inputs.get("tags")), ("volume", root.get("tags") or inputs.get("volumeTags"))]
        wanted: Props = {
            "MinCount": 1,
            "MaxCount": 1,
            "Monitoring": {"Enabled": bool(inputs.get("monitoring"))},
            "TagSpecifications": [
                {"ResourceType": kind, "Tags": tag_list(values)} for kind, values in tags if values
            ],
            **_renamed(inputs, _LAUNCH),
        }
        if inputs.get("iamInstanceProfile"):
            wanted["IamInstanceProfile"] = {"Name": inputs["iamInstanceProfile"]}
        if inputs.get("metadataOptions"):
            wanted["MetadataOptions"] = _renamed(inputs["metadataOptions"], _METADATA)
        if inputs.get("launchTemplate"):
            wanted["LaunchTemplate"] = _renamed(inputs["launchTemplate"], _TEMPLATE)
        if inputs.get("availabilityZone") and not inputs.get("subnetId"):
            wanted["Placement"] = {"AvailabilityZone": inputs["availabilityZone"]}
        if root:
            device = {"DeviceName": _root_device(aws, inputs), "Ebs": _renamed(root, _VOLUME)}
            wanted["BlockDeviceMappings"] = [device]
        rid = str(aws.client("ec2").run_instances(**wanted)["Instances"][0]["InstanceId"])
        with keep_on_failure(rid):
            self._await(aws, rid, "running")
        return rid

    def _await(self, aws: Aws, rid: str, state: str) -> None:
        await_state(lambda: _state(_find(aws, rid)), "Name", {state}, timeout_s=TIMEOUT_S, what=rid)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The instance with its root volume, None once it ends."""
        found = _find(aws, rid)
        if found is None or found["State"]["Name"] in _ENDED:
            return None
        ec2 = aws.client("ec2")
        root = next(
            each["Ebs"]
            for each in found["BlockDeviceMappings"]
            if each["DeviceName"] == found["RootDeviceName"]
        )
        volume = ec2.describe_volumes(VolumeIds=[root["VolumeId"]])["Volumes"][0]
        wanted = state.get("rootBlockDevice") or {}
        shown: Props = {
            "deviceName": found["RootDeviceName"],
            "volumeId": root["VolumeId"],
            "volumeType": volume["VolumeType"],
            "volumeSize": volume["Size"],
            "encrypted": volume["Encrypted"],
            "deleteOnTermination": root.get("DeleteOnTermination", True),
            "tags": {each["Key"]: each["Value"] for each in volume.get("Tags") or ()},
            **{
                key: volume[name]
                for key, name in (("iops", "Iops"), ("throughput", "Throughput"))
                if key in wanted
            },
            **({"kmsKeyId": volume["KmsKeyId"]} if volume.get("KmsKeyId") else {}),
        }
        profile = str((found.get("IamInstanceProfile") or {}).get("Arn", ""))
        interfaces = found.get("NetworkInterfaces") or [{}]
        return {
            "ami": found["ImageId"],
            "arn": aws.arn("ec2", f"instance/{rid}"),
            "availabilityZone": found["Placement"]["AvailabilityZone"],
            "iamInstanceProfile": profile.rpartition("/")[2] or None,
            "instanceState": found["State"]["Name"],
            "instanceType": found["InstanceType"],
            "monitoring": (found.get("Monitoring") or {}).get("State") in ("enabled", "pending"),
            "primaryNetworkInterfaceId": interfaces[0].get("NetworkInterfaceId"),
            "privateDns": found.get("PrivateDnsName"),
            "privateIp": found.get("PrivateIpAddress"),
            "publicIp": found.get("PublicIpAddress", ""),
            "rootBlockDevice": shown,
            "subnetId": found.get("SubnetId"),
            "tags": {each["Key"]: each["Value"] for each in found.get("Tags") or ()},
            "vpcSecurityGroupIds": [each["GroupId"] for each in found.get("SecurityGroups") or ()],
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change type (the instance stops for it), groups, metadata options, monitoring, volume and tags."""
        ec2 = aws.client("ec2")
        if "instanceType" in changed:
            ec2.stop_instances(InstanceIds=[rid])
            self._await(aws, rid, "stopped")
            ec2.modify_instance_attribute(InstanceId=rid, InstanceType={"Value": new["instanceType"]})
            ec2.start_instances(InstanceIds=[rid])
            self._await(aws, rid, "running")
        if "vpcSecurityGroupIds" in changed:
            ec2.modify_instance_attribute(InstanceId=rid, Groups=new["vpcSecurityGroupIds"])
        if "metadataOptions" in changed:
            ec2.modify_instance_metadata_options(
                InstanceId=rid, **_renamed(new["metadataOptions"], _METADATA)
            )
        if "monitoring" in changed:
            (ec2.monitor_instances if new.get("monitoring") else ec2.unmonitor_instances)(InstanceIds=[rid])
        if "iamInstanceProfile" in changed:
            _change_profile(ec2, rid, new.get("iamInstanceProfile"))
        if "rootBlockDevice" in changed:
            self._change_volume(aws, old["rootBlockDevice"], new["rootBlockDevice"])
        retag(aws, rid, old, new)

    @staticmethod
    def _change_volume(aws: Aws, old: Props, new: Props) -> None:
        rid = str(old["volumeId"])
        sizes = {
            api: new[key]
            for key, api in (("volumeSize", "Size"), ("volumeType", "VolumeType"), ("iops", "Iops"))
            if key in new and new[key] != old.get(key)
        }
        if sizes:
            aws.client("ec2").modify_volume(VolumeId=rid, **sizes)
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Terminate the instance and wait until it is gone."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.terminate_instances(InstanceIds=[rid]), lambda: _alive(aws, rid), rid)


class SubnetCidrReservation(Handler):
    """aws.ec2.SubnetCidrReservation: addresses that EC2 gives to nothing by itself (`explicit`)."""

    pulumi_type = "aws:ec2/subnetCidrReservation:SubnetCidrReservation"
    force_new = frozenset({"cidrBlock", "description", "reservationType", "subnetId"})
    delete_before_replace = True
    takes_default_tags = False

    def create(self, aws: Aws, inputs: Props) -> str:
        """Reserve the block. One that an interrupted run made is this resource."""
        for each in self._of_subnet(aws, inputs["subnetId"]):
            if (each["Cidr"], each["ReservationType"]) == (inputs["cidrBlock"], inputs["reservationType"]):
                return str(each["SubnetCidrReservationId"])
        made = aws.client("ec2").create_subnet_cidr_reservation(
            SubnetId=inputs["subnetId"],
            Cidr=inputs["cidrBlock"],
            ReservationType=inputs["reservationType"],
            **({"Description": inputs["description"]} if inputs.get("description") else {}),
        )
        return str(made["SubnetCidrReservation"]["SubnetCidrReservationId"])

    @staticmethod
    def _of_subnet(aws: Aws, subnet: str) -> list[Props]:
        try:
            answer = aws.client("ec2").get_subnet_cidr_reservations(SubnetId=subnet)
        except Exception as error:
            if is_missing(error):
                return []
            raise
        found: list[Props] = answer["SubnetIpv4CidrReservations"]
        return found

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The reservation, if its subnet has it."""
        for each in self._of_subnet(aws, state["subnetId"]):
            if each["SubnetCidrReservationId"] == rid:
                return {
                    "cidrBlock": each["Cidr"],
                    "description": each.get("Description"),
                    "ownerId": each.get("OwnerId"),
                    "reservationType": each["ReservationType"],
                    "subnetId": each["SubnetId"],
                }
        return None

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Give the block back."""
        aws.client("ec2").delete_subnet_cidr_reservation(SubnetCidrReservationId=rid)


def _root_device(aws: Aws, inputs: Props) -> str:
    """Return the name of the image's root device; an image of another account is not known here."""
    images = [inputs["ami"]] if inputs.get("ami") else []
    found = find(aws.client("ec2").describe_images, "Images", ImageIds=images) if images else None
    return str((found or {}).get("RootDeviceName") or "/dev/sda1")


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> Props:
    return {names[key]: value for key, value in values.items() if key in names and value is not None}


def _find(aws: Aws, rid: str) -> Props | None:
    try:
        found = aws.client("ec2").describe_instances(InstanceIds=[rid])["Reservations"]
    except Exception as error:
        if is_missing(error):
            return None
        raise
    instances: list[Props] = [each for one in found for each in one["Instances"]]
    return instances[0] if instances else None


def _state(found: Props | None) -> Props | None:
    return None if found is None else found["State"]


def _alive(aws: Aws, rid: str) -> Props | None:
    found = _find(aws, rid)
    return None if found is None or found["State"]["Name"] == "terminated" else found


def _change_profile(ec2: Any, rid: str, name: str | None) -> None:
    of_instance = [{"Name": "instance-id", "Values": [rid]}]
    for each in ec2.describe_iam_instance_profile_associations(Filters=of_instance)[
        "IamInstanceProfileAssociations"
    ]:
        ec2.disassociate_iam_instance_profile(AssociationId=each["AssociationId"])
    if name:
        ec2.associate_iam_instance_profile(InstanceId=rid, IamInstanceProfile={"Name": name})


HANDLERS = (Instance(), SubnetCidrReservation())
