"""What a rack site asks of Kubernetes: the control plane, its networks, and groups of GPU nodes."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.cloud import Taint
from gpufleet.spec.fields import (
    WHOLE,
    AbsolutePath,
    Cidr,
    HostOrAddress,
    KubernetesVersion,
    LabelKey,
    LabelValue,
    Name,
    ReservedCpus,
    ReservedMemory,
    Switch,
)
from gpufleet.spec.gpu_sharing import GpuSharing
from gpufleet.spec.quantity import Duration, HostRange


class RackNodeGroup(Model):
    """GPU nodes of a site that are used alike."""

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["training"])]
    nodes: Annotated[HostRange, Field(description="Its GPU nodes.")]
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels of the nodes.", examples=[{"tier": "batch"}]
    )
    taints: Annotated[tuple[Taint, ...], Field(description="Taints of the nodes.")] = ()
    gpu_sharing: Annotated[
        GpuSharing | None, Field(description="Whether pods share GPUs; each has its own if left out.")
    ] = None


class EtcdBackup(Model):
    """Snapshots of etcd on every member of the control plane."""

    folder: Annotated[
        AbsolutePath,
        Field(description="Where they are, on each member.", examples=["/var/backups/gpufleet/etcd"]),
    ] = "/var/backups/gpufleet/etcd"
    keep: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="How many are kept.",
            examples=[28],
            json_schema_extra={"unit": "snapshots"},
        ),
        WHOLE,
    ] = 28
    every: Annotated[Duration, Field(description="How often one is taken.")] = Duration(timedelta(hours=6))


class Operators(Model):
    """Which of NVIDIA's operators are installed. Drivers stay the host's in either case."""

    gpu_operator: Annotated[Switch, Field(description="Device plugin, feature discovery, metrics.")] = True
    network_operator: Annotated[Switch, Field(description="RDMA devices and secondary networks.")] = True


class RackKubernetes(Model):
    """Kubernetes of a rack site, made by kubeadm. `controllers` of the site are its control plane."""

    version: Annotated[
        KubernetesVersion,
        Field(description="The minor version; the channel has the rest.", examples=["1.35"]),
    ] = "1.35"
    endpoint: Annotated[
        HostOrAddress | None,
        Field(
            description="The API's virtual address; the control plane's only host if left out.",
            examples=["10.60.0.5"],
        ),
    ] = None
    port: Annotated[int, Field(ge=1024, le=65_535, description="The API's port.", examples=[6443]), WHOLE] = (
        6443
    )
    pod_network: Annotated[Cidr, Field(description="Addresses of pods.", examples=["10.244.0.0/16"])] = (
        "10.244.0.0/16"
    )
    service_network: Annotated[
        Cidr, Field(description="Addresses of services.", examples=["10.96.0.0/16"])
    ] = "10.96.0.0/16"
    cni: Annotated[Literal["calico", "cilium", "flannel"], Field(description="What connects pods.")] = (
        "calico"
    )
    network_policies: Annotated[Switch, Field(description="Whether network policies have to hold.")] = True
    pod_security: Annotated[
        Literal["privileged", "baseline", "restricted"],
        Field(description="What pods may do at most, outside of the system's namespaces."),
    ] = "baseline"
    host_network: Annotated[
        tuple[Name, ...],
        Field(
            description="Teams whose pods may use the network of their node, without network policies.",
            examples=[["research"]],
        ),
    ] = ()
    node_groups: Annotated[
        tuple[RackNodeGroup, ...],
        Field(description="Nodes that are used alike; one of all, `gpu`, if empty."),
    ] = ()
    kueue: Annotated[Switch, Field(description="Whether Kueue shares out GPUs among teams.")] = True
    operators: Annotated[Operators, Field(description="NVIDIA's operators.")] = Operators()
    backup: Annotated[EtcdBackup, Field(description="Snapshots of etcd.")] = EtcdBackup()
    reserved_cpus: ReservedCpus = 2
    reserved_memory_gib: ReservedMemory = 4
