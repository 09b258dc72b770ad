"""EksCluster: a private, encrypted Kubernetes control plane with logs, and its system nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_aws as aws

from gpufleet.catalog.images import EKS_IMAGE
from gpufleet.components.access_entries import AccessKind, access_entries
from gpufleet.components.autoscaled_groups import AutoscaledArgs
from gpufleet.components.base import Component, Tags, encryption_key, field_of, logs_may_use_key
from gpufleet.components.eks_user_data import eks_user_data, join_config
from gpufleet.components.identity import PodRole, PodRoleArgs
from gpufleet.components.kubeconfig import TokenCommandArgs, kubeconfig
from gpufleet.components.node_group import (
    EksNodesArgs,
    HeldSize,
    NodeGroup,
    NodeGroupArgs,
    NodeImageArgs,
    VolumeArgs,
)
from gpufleet.errors import InputError
from gpufleet.kinds import (
    BUCKET_ADDON,
    CONTROL_PLANE_LOGS,
    EKS_ADDONS,
    LOG_RETENTION_DAYS,
    LUSTRE_ADDON,
    SYSTEM_INSTANCE_TYPES,
    SYSTEM_NODES_MAX,
    SYSTEM_NODES_MIN,
)


@dataclass(frozen=True, kw_only=True)
class SystemNodesArgs:
    """Nodes without GPUs that run the cluster's own services, from `image` or EKS's newest of `ami_type` (see
    `EksNodesArgs`). `held` has sizes that were set outside and must not grow. With `autoscaled` a Cluster
    Autoscaler sets their number, if it can change."""

    instance_types: Sequence[str] = SYSTEM_INSTANCE_TYPES
    min_size: int = SYSTEM_NODES_MIN
    max_size: int = SYSTEM_NODES_MAX
    volume: VolumeArgs = field(default_factory=VolumeArgs)
    ami_type: str = EKS_IMAGE
    image: NodeImageArgs | None = None
    held: HeldSize | None = None
    autoscaled: bool = False


@dataclass(frozen=True, kw_only=True)
class EksClusterArgs:
    """Inputs of `EksCluster`.

    The endpoint is private, and only members of the cluster's security group reach it. `private_cidrs`
    allows networks that are routed to this one (a VPN, racks), `public_cidrs` networks on the internet.
    `admins` are ARNs of IAM principals that administer the cluster, in addition to the one that creates it:
    for that one EKS makes the access entry itself and refuses a second, so it must not be listed. `viewers`
    read everything and change nothing. `token` is the command of the kubeconfig. With `support_type`
    STANDARD, EKS upgrades a cluster automatically when the standard support of `version` ends; EXTENDED keeps
    the version, at six times the hourly price (EKS pricing). Only `addons` are installed; supported are those
    of EKS_ADDONS, `aws-fsx-csi-driver` and `aws-mountpoint-s3-csi-driver`. An add-on without an entry in
    `addon_versions` gets EKS's default for `version` once, and keeps it. System nodes launch once everything
    in `after` exists (the routes of their subnets).
    """

    cluster_name: str
    version: str
    cluster_role_arn: pulumi.Input[str]
    node_role_arn: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    private_cidrs: Sequence[str] = ()
    public_cidrs: Sequence[str] = ()
    admins: Sequence[pulumi.Input[str]] = ()
    viewers: Sequence[pulumi.Input[str]] = ()
    token: TokenCommandArgs = field(default_factory=TokenCommandArgs)
    system_nodes: SystemNodesArgs = field(default_factory=SystemNodesArgs)
    log_types: Sequence[str] = CONTROL_PLANE_LOGS
    addons: Sequence[str] = EKS_ADDONS
    addon_versions: Mapping[str, str] = field(default_factory=dict)
    deletion_protection: bool = True
    support_type: Literal["STANDARD", "EXTENDED"] = "STANDARD"
    after: Sequence[pulumi.Resource] = ()
    log_retention_days: int = LOG_RETENTION_DAYS
    tags: Tags


class EksCluster(Component):
    """An EKS cluster with system nodes and the add-ons that GPU nodes need.

    The cluster has its own key for secrets, keeps all control-plane logs, grants access only by access
    entries (authentication mode API), and gives pods AWS roles by Pod Identity.
    """

    cluster_name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    version: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    """Base64, as nodeadm and kubeconfigs take it."""
    service_cidr: pulumi.Output[str]
    security_group_id: pulumi.Output[str]
    """EKS's own group: its members can reach the control plane and the other nodes."""
    kubeconfig: pulumi.Output[str]
    """Secret. For machines in a network that reaches the endpoint."""
    ready: Sequence[pulumi.Resource]
    """Resources that must exist before GPU nodes join: the add-ons that a node needs to become ready."""
    system_ready: Sequence[pulumi.Resource]
    """Resources that must exist before workloads are applied: system nodes and all add-ons."""

    def __init__(self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        _check(name, args)
        super().__init__("gpufleet:cluster:EksCluster", name, args.tags, opts)
        context = self.aws_context()
        group_name = f"/aws/eks/{args.cluster_name}/cluster"
        key = encryption_key(
            self,
            name,
            f"Secrets and control-plane logs of {args.cluster_name}",
            context,
            services=[logs_may_use_key(context, group_name)],
        )
        logs = aws.cloudwatch.LogGroup(
            name,
            # EKS writes to this name. Created first, the group has its retention and key from the start.
            name=group_name,
            retention_in_days=args.log_retention_days,
            kms_key_id=key.arn,
            tags=self.tags(name),
            opts=self.child(),
        )
        self._cluster = aws.eks.Cluster(
            name,
            name=args.cluster_name,
            version=args.version,
            role_arn=args.cluster_role_arn,
            # The add-ons below are separate resources, which install and update them.
            bootstrap_self_managed_addons=False,
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=True
            ),
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=list(args.subnet_ids),
                endpoint_private_access=True,
                endpoint_public_access=bool(args.public_cidrs),
                public_access_cidrs=list(args.public_cidrs) or None,
            ),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=key.arn), resources=["secrets"]
            ),
            enabled_cluster_log_types=list(args.log_types),
            deletion_protection=args.deletion_protection,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type=args.support_type),
            tags=self.tags(args.cluster_name),
            opts=self.child(depends_on=[logs]),
        )
        self.cluster_name = self._cluster.name
        self.endpoint = self._cluster.endpoint
        self.version = self._cluster.version
        self.certificate_authority = self._cluster.certificate_authority.apply(
            lambda given: str(field_of(given, "data"))
        )
        self.service_cidr = self._cluster.kubernetes_network_config.apply(
            lambda given: str(field_of(given, "service_ipv4_cidr"))
        )
        self.security_group_id = self._cluster.vpc_config.apply(_cluster_group)
        self._private_access(name, args.private_cidrs)
        entries: tuple[tuple[AccessKind, Sequence[pulumi.Input[str]]], ...] = (
            ("admin", args.admins),
            ("viewer", args.viewers),
        )
        for kind, principals in entries:
            access_entries(self, name, kind, principals, self.cluster_name, context.partition)
        self.ready = self._addons_for_nodes(name, args)
        system = self._system_nodes(name, args)
        self.system_ready = [*self.ready, system, *self._addons_on_nodes(name, args, system)]
        self._region = context.region
        self.kubeconfig = self.kubeconfig_with(args.token)
        self.register_outputs(
            {
                "clusterName": self.cluster_name,
                "endpoint": self.endpoint,
                "version": self.version,
                "securityGroupId": self.security_group_id,
                "kubeconfig": self.kubeconfig,
            }
        )

    def _private_access(self, name: str, cidrs: Sequence[str]) -> None:
        for cidr in cidrs:
            if cidr.endswith("/0"):
                raise ValueError(f"{name}: private_cidrs has {cidr}, which is every network")
            label = f"{name}-api-{cidr.replace('/', '-')}"
            aws.vpc.SecurityGroupIngressRule(
                label,
                security_group_id=self.security_group_id,
                description="Kubernetes API from a connected network",
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                cidr_ipv4=cidr,
                tags=self.tags(label),
                opts=self.child(),
            )

    def kubeconfig_with(
        self, token: TokenCommandArgs | pulumi.Output[TokenCommandArgs], *, port: int | None = None
    ) -> pulumi.Output[str]:
        """Return a kubeconfig with another command for tokens, through a port of this machine if given."""
        return pulumi.Output.secret(
            pulumi.Output.all(
                self.cluster_name, self.endpoint, self._cluster.certificate_authority, self._region, token
            ).apply(
                lambda parts: kubeconfig(
                    parts[0], parts[1], field_of(parts[2], "data"), parts[3], parts[4], port=port
                )
            )
        )

    def user_data(self, parts: Sequence[str] = (), taints: Sequence[str] = ()) -> pulumi.Output[str]:
        """Return user data, in base64, by which a node joins whose image the launch template names.

        `parts` follow (see `gpufleet.user_data`), and the last of several NodeConfigs wins. `taints`
        (`key=value:Effect`) are set as the node registers.
        """
        joined: pulumi.Output[str] = pulumi.Output.all(
            self.cluster_name, self.endpoint, self.certificate_authority, self.service_cidr
        ).apply(
            lambda found: eks_user_data(join_config(found[0], found[1], found[2], found[3], taints), parts)
        )
        return joined

    def _addons_for_nodes(self, name: str, args: EksClusterArgs) -> list[pulumi.Resource]:
        """Install what a node needs to become ready: Pod Identity, then the network plugin that uses it."""
        made: list[pulumi.Resource] = []
        if "eks-pod-identity-agent" in args.addons:
            made.append(self._addon(name, "eks-pod-identity-agent", args, []))
        if "vpc-cni" in args.addons:
            network = self._pod_role(
                f"{name}-vpc-cni", args, "aws-node", managed_policies=["AmazonEKS_CNI_Policy"]
            )
            # Without this setting the plugin silently ignores every NetworkPolicy.
            policies = {"enableNetworkPolicy": "true"}
            made.append(self._addon(name, "vpc-cni", args, [*made, network], policies))
        if "kube-proxy" in args.addons:
            made.append(self._addon(name, "kube-proxy", args, []))
        return made

    def _system_nodes(self, name: str, args: EksClusterArgs) -> NodeGroup:
        return NodeGroup(
            f"{name}-system",
            NodeGroupArgs(
                instance_types=args.system_nodes.instance_types,
                min_size=args.system_nodes.min_size,
                max_size=args.system_nodes.max_size,
                subnet_ids=list(args.subnet_ids),
                security_group_ids=[self.security_group_id],
                volume=args.system_nodes.volume,
                user_data=self.user_data() if args.system_nodes.image is not None else None,
                eks=EksNodesArgs(
                    cluster_name=self.cluster_name,
                    version=self.version,
                    node_role_arn=args.node_role_arn,
                    ami_type=args.system_nodes.ami_type,
                    image=args.system_nodes.image,
                    labels={"gpufleet.io/node-group": "system"},
                    autoscaled=AutoscaledArgs(cluster=args.cluster_name)
                    if args.system_nodes.autoscaled
                    else None,
                ),
                after=[*args.after, *self.ready],
                held={f"{name}-system": held} if (held := args.system_nodes.held) else {},
                tags=args.tags,
            ),
            opts=self.child(),
        )

    def _addons_on_nodes(
        self, name: str, args: EksClusterArgs, system: pulumi.Resource
    ) -> list[pulumi.Resource]:
        """Install add-ons that run on the system nodes."""
        addons: list[pulumi.Resource] = []
        if "coredns" in args.addons:
            addons.append(self._addon(name, "coredns", args, [system]))
        if "aws-ebs-csi-driver" in args.addons:
            block_storage = self._pod_role(
                f"{name}-ebs-csi",
                args,
                "ebs-csi-controller-sa",
                managed_policies=["service-role/AmazonEBSCSIDriverPolicy"],
            )
            # Volumes that pods claim are billed too, and do not get the cluster's tags.
            tagged = {"controller": {"extraVolumeTags": dict(args.tags)}}
            addons.append(self._addon(name, "aws-ebs-csi-driver", args, [system, block_storage], tagged))
        if LUSTRE_ADDON in args.addons:
            # File systems are created outside Kubernetes and mounted by name: the driver only reads.
            context = self.aws_context()
            look: list[dict[str, Any]] = [
                {"Effect": "Allow", "Action": ["fsx:DescribeFileSystems"], "Resource": "*"},
                {
                    "Effect": "Allow",
                    "Action": ["fsx:ListTagsForResource"],
                    "Resource": pulumi.Output.format(
                        "arn:{0}:fsx:{1}:{2}:file-system/*",
                        context.partition,
                        context.region,
                        context.account_id,
                    ),
                },
            ]
            lustre = self._pod_role(f"{name}-fsx-csi", args, "fsx-csi-controller-sa", statements=look)
            addons.append(self._addon(name, LUSTRE_ADDON, args, [system, lustre]))
        if BUCKET_ADDON in args.addons:
            # Without a role: volumes are mounted with the roles of the pods that use them.
            addons.append(self._addon(name, BUCKET_ADDON, args, [system]))
        return addons

    def _pod_role(
        self,
        label: str,
        args: EksClusterArgs,
        service_account: str,
        *,
        managed_policies: Sequence[str] = (),
        statements: Sequence[Mapping[str, Any]] = (),
    ) -> PodRole:
        return PodRole(
            label,
            PodRoleArgs(
                cluster_name=self.cluster_name,
                namespace="kube-system",
                service_account=service_account,
                managed_policies=managed_policies,
                statements=statements,
                tags=args.tags,
            ),
            opts=self.child(),
        )

    def _addon(
        self,
        name: str,
        addon: str,
        args: EksClusterArgs,
        after: Sequence[pulumi.Resource],
        configuration: Mapping[str, Any] | None = None,
    ) -> aws.eks.Addon:
        label = f"{name}-{addon}"
        return aws.eks.Addon(
            label,
            cluster_name=self.cluster_name,
            addon_name=addon,
            addon_version=args.addon_versions.get(addon),
            configuration_values=pulumi.Output.json_dumps(configuration) if configuration else None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="PRESERVE",
            tags=self.tags(label),
            opts=self.child(depends_on=list(after)),
        )


def _cluster_group(vpc_config: Any) -> Any:
    return field_of(vpc_config, "cluster_security_group_id")


def _check(name: str, args: EksClusterArgs) -> None:
    known = (*EKS_ADDONS, LUSTRE_ADDON, BUCKET_ADDON)
    unknown = [each for each in args.addons if each not in known]
    if unknown:
        raise InputError(
            f"cluster {name}: add-on {unknown[0]} is not supported by this component",
            remedy=f"use some of {', '.join(known)}, and create an aws.eks.Addon for others",
        )
