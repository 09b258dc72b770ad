"""Servers of a Slurm in AWS: instances for controllers and login hosts, and file systems that they share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags, assume_role_policy, available_after, encryption_key
from gpufleet.components.node_image import NodeImageArgs, image_id
from gpufleet.kinds import SLURM_SERVER_TAG

NFS_PORT = 2049
"""The port of EFS (EFS User Guide, "Using VPC security groups")."""

_POLICY = "AmazonSSMManagedInstanceCore"


@dataclass(frozen=True, kw_only=True)
class ServerArgs:
    """An instance. `host` is its host name, `address` its private address, in a subnet of `zone`; the root
    volume is in GiB."""

    name: str
    host: str
    role: Literal["controller", "login"]
    zone: str
    address: str
    instance_type: str
    volume_gib: int


@dataclass(frozen=True, kw_only=True)
class SlurmServersArgs:
    """Inputs of `SlurmServers`.

    `subnet_ids` are by zone, and so is `reserved`, the blocks of addresses (CIDRs) that are kept for servers.
    `security_group_id` is the group of all nodes. `ssh_keys` may log in as the user of the image. Each of
    `file_systems` is a name; `ready` are resources that must exist before a server installs packages.
    `protect` prevents Pulumi from deleting or replacing controllers and file systems.
    """

    vpc_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    reserved: Mapping[str, str]
    security_group_id: pulumi.Input[str]
    image: NodeImageArgs
    servers: Sequence[ServerArgs]
    ssh_keys: Sequence[str] = ()
    file_systems: Sequence[str] = ()
    ready: Sequence[pulumi.Resource] = ()
    protect: bool = True
    tags: Tags


class SlurmServers(Component):
    """Instances with fixed private addresses, reached by Session Manager, and encrypted EFS file systems.

    An instance keeps its image and user data: its disk has the state of the cluster. Another type restarts
    it. `instance_ids` are by host name, `exports` NFS sources by the names of file systems.
    """

    controller_role_name: pulumi.Output[str]
    instance_ids: Mapping[str, pulumi.Output[str]]
    exports: Mapping[str, pulumi.Output[str]]

    def __init__(self, name: str, args: SlurmServersArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:slurm:SlurmServers", name, args.tags, opts)
        kept: list[pulumi.Resource] = [
            aws.ec2.SubnetCidrReservation(
                f"{name}-servers-{zone}",
                subnet_id=args.subnet_ids[zone],
                cidr_block=block,
                # EC2 gives no other instance an address of it.
                reservation_type="explicit",
                description="Slurm controllers and login hosts",
                opts=self.child(),
            )
            for zone, block in args.reserved.items()
        ]
        roles = dict.fromkeys(each.role for each in args.servers)
        profiles = {role: self._profile(f"{name}-{role}", role) for role in roles}
        ami = image_id(self, args.image)
        self.instance_ids = {
            each.host: self._instance(f"{name}-{each.name}", each, args, ami, profiles[each.role], kept).id
            for each in args.servers
        }
        self.exports = {each: self._file_system(name, each, args) for each in args.file_systems}
        self.register_outputs({"instanceIds": dict(self.instance_ids), "exports": dict(self.exports)})

    def _profile(self, label: str, role: str) -> pulumi.Output[str]:
        context = self.aws_context()
        made = aws.iam.Role(
            label,
            description=f"Slurm: {role} hosts",
            assume_role_policy=assume_role_policy("ec2.amazonaws.com"),
            tags=self.tags(label),
            opts=self.child(),
        )
        policy = aws.iam.RolePolicyAttachment(
            label,
            role=made.name,
            policy_arn=pulumi.Output.format("arn:{0}:iam::aws:policy/{1}", context.partition, _POLICY),
            opts=self.child(),
        )
        profile = aws.iam.InstanceProfile(label, role=made.name, tags=self.tags(label), opts=self.child())
        if role == "controller":
            self.controller_role_name = made.name
        return available_after(profile.name, [policy])

    def _instance(
        self,
        label: str,
        server: ServerArgs,
        args: SlurmServersArgs,
        ami: pulumi.Input[str],
        profile: pulumi.Output[str],
        kept: Sequence[pulumi.Resource],
    ) -> aws.ec2.Instance:
        tags = self.tags(label, **{SLURM_SERVER_TAG: server.role})
        return aws.ec2.Instance(
            label,
            ami=ami,
            instance_type=server.instance_type,
            subnet_id=args.subnet_ids[server.zone],
            private_ip=server.address,
            vpc_security_group_ids=[args.security_group_id],
            iam_instance_profile=profile,
            associate_public_ip_address=False,
            metadata_options=aws.ec2.InstanceMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            root_block_device=aws.ec2.InstanceRootBlockDeviceArgs(
                volume_type="gp3",
                volume_size=server.volume_gib,
                encrypted=True,
                # The first controller's disk has accounting and the state of jobs: a lost instance leaves it.
                delete_on_termination=server.role != "controller",
                tags=tags,
            ),
            user_data=_user_data(server.host, args.ssh_keys),
            tags=tags,
            opts=self.child(
                depends_on=[*kept, *args.ready],
                ignore_changes=["ami", "userData"],
                protect=args.protect and server.role == "controller",
            ),
        )

    def _file_system(self, name: str, label: str, args: SlurmServersArgs) -> pulumi.Output[str]:
        full = f"{name}-{label}"
        context = self.aws_context()
        key = encryption_key(self, full, f"Slurm's file system {full}", context, protect=args.protect)
        system = aws.efs.FileSystem(
            full,
            encrypted=True,
            kms_key_id=key.arn,
            performance_mode="generalPurpose",
            throughput_mode="elastic",
            tags=self.tags(full),
            opts=self.child(protect=args.protect),
        )
        group = aws.ec2.SecurityGroup(
            full,
            description=f"Slurm's file system {full}: NFS from nodes and servers",
            vpc_id=args.vpc_id,
            tags=self.tags(full),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            full,
            security_group_id=group.id,
            description="NFS from nodes and servers",
            ip_protocol="tcp",
            from_port=NFS_PORT,
            to_port=NFS_PORT,
            referenced_security_group_id=args.security_group_id,
            tags=self.tags(full),
            opts=self.child(),
        )
        targets: list[pulumi.Resource] = [
            aws.efs.MountTarget(
                f"{full}-{zone}",
                file_system_id=system.id,
                subnet_id=subnet,
                security_groups=[group.id],
                opts=self.child(),
            )
            for zone, subnet in args.subnet_ids.items()
        ]
        return available_after(pulumi.Output.format("{0}:/", system.dns_name), targets)


def _user_data(host: str, keys: Sequence[str]) -> str:
    """Return cloud-init's configuration of a server: slurmctld compares the host's name with its own."""
    settings = {
        "hostname": host,
        "preserve_hostname": False,
        **({"ssh_authorized_keys": list(keys)} if keys else {}),
    }
    # JSON is YAML.
    return f"#cloud-config\n{json.dumps(settings)}\n"
