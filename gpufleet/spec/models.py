"""The fleet file as frozen models: what a user may declare, and nothing derived from it.

Quantities are parsed once into the types of `gpufleet.spec.quantity`. Rules that need more than
one field or the catalog live in `gpufleet.checks`; these models hold the shape, simple bounds and
the names of fields. Unknown fields are forbidden; the loader turns pydantic's errors into findings
with file, line and a "did you mean". Every model of the fleet file can be imported from here.
"""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.kinds import OnBreach
from gpufleet.spec.autoscaler import Autoscaler
from gpufleet.spec.base import Model
from gpufleet.spec.capacity import (
    Capacity,
    CapacityBlock,
    OnDemand,
    OnDemandReservation,
    PurchasingOption,
    Reserved,
    Spot,
)
from gpufleet.spec.cloud import (
    CloudNetwork,
    CloudSite,
    InstanceStore,
    Kubernetes,
    NodeGroup,
    SystemNodes,
    Taint,
    Volume,
)
from gpufleet.spec.cloud_slurm import CloudBurst, CloudSlurm
from gpufleet.spec.direct_connect import CloudDirectConnect
from gpufleet.spec.dns import CloudDns, DnsForward
from gpufleet.spec.fault_repair import FaultRepair
from gpufleet.spec.fields import (
    FEW_SITES,
    MOST_SITES,
    AnomalyMonitor,
    ImageRelease,
    LabelValue,
    MailAddress,
    Name,
    NodeCount,
    SiteGroupName,
    SoftwareChannel,
    TagKey,
)
from gpufleet.spec.gpu_sharing import GpuSharing
from gpufleet.spec.interruptions import Interruptions
from gpufleet.spec.management import Management, MigLayout
from gpufleet.spec.onprem import (
    Doca,
    LocalNvme,
    OnPremSite,
    Ownership,
    Reboot,
    RunningCosts,
    SitePower,
    Ssh,
)
from gpufleet.spec.ordered_capacity import OrderedCapacity
from gpufleet.spec.policy import Date, Exemption, RuleSettings
from gpufleet.spec.quantity import Money, Percent
from gpufleet.spec.queues import Queues
from gpufleet.spec.rack_fabric import Fabric, FabricPartition, FabricSwitch, Roce, SubnetManager
from gpufleet.spec.rack_kubernetes import EtcdBackup, RackKubernetes, RackNodeGroup
from gpufleet.spec.rack_monitoring import (
    AlertReceivers,
    EmailReceiver,
    Monitoring,
    RemoteWrite,
    SlackReceiver,
    WebhookReceiver,
)
from gpufleet.spec.rack_slurm import Billing, RackSlurm, SlurmPartition, SlurmQos
from gpufleet.spec.slurm_servers import ServerSsh, SlurmController, SlurmLogin, SlurmServers
from gpufleet.spec.storage import Bucket, Lustre, OnPremStorage, Storage
from gpufleet.spec.teams import KubernetesTeam, Team, TeamBucket, TeamFileSystem
from gpufleet.spec.users import User, UserGroup
from gpufleet.spec.vpn import CloudVpn

__all__ = [
    "AlertReceivers",
    "Anomalies",
    "Autoscaler",
    "Billing",
    "Bucket",
    "Budget",
    "Capacity",
    "CapacityBlock",
    "CloudBurst",
    "CloudDirectConnect",
    "CloudDns",
    "CloudNetwork",
    "CloudSite",
    "CloudSlurm",
    "CloudVpn",
    "DnsForward",
    "Doca",
    "EmailReceiver",
    "EtcdBackup",
    "Exemption",
    "Fabric",
    "FabricPartition",
    "FabricSwitch",
    "FaultRepair",
    "FleetSpec",
    "GpuSharing",
    "InstanceStore",
    "Interruptions",
    "Kubernetes",
    "KubernetesTeam",
    "LocalNvme",
    "Lustre",
    "Management",
    "MigLayout",
    "Model",
    "Monitoring",
    "Name",
    "NodeCount",
    "NodeGroup",
    "NodeImages",
    "OnDemand",
    "OnDemandReservation",
    "OnPremSite",
    "OnPremStorage",
    "OrderedCapacity",
    "Ownership",
    "PurchasingOption",
    "Queues",
    "RackKubernetes",
    "RackNodeGroup",
    "RackSlurm",
    "Reboot",
    "RemoteWrite",
    "Reserved",
    "Roce",
    "RuleSettings",
    "RunningCosts",
    "ServerSsh",
    "SitePower",
    "SlackReceiver",
    "SlurmController",
    "SlurmLogin",
    "SlurmPartition",
    "SlurmQos",
    "SlurmServers",
    "Software",
    "Spot",
    "Ssh",
    "Storage",
    "SubnetManager",
    "SystemNodes",
    "Taint",
    "Team",
    "TeamBucket",
    "TeamFileSystem",
    "User",
    "UserGroup",
    "Volume",
    "WebhookReceiver",
]


class Anomalies(Model):
    """AWS Cost Anomaly Detection, in the account of the cloud sites."""

    above: Annotated[
        Money,
        Field(
            description="The impact on cost from which an anomaly is reported to `notify`.",
            examples=["500 USD"],
        ),
    ]
    monitor: Annotated[
        AnomalyMonitor | None,
        Field(
            description="ARN of an existing monitor; one of the environment's tag is made if left out, which "
            "only the management account of an organization may do.",
            examples=["arn:aws:ce::111122223333:anomalymonitor/1234abcd-12ab-34cd-56ef-1234567890ab"],
        ),
    ] = None


class Budget(Model):
    """What the environment may cost. `upfront` caps payments made at once (Capacity Blocks)."""

    monthly: Annotated[Money, Field(description="What a month may cost.")]
    alerts: Annotated[
        tuple[Percent, ...],
        Field(
            description="Shares of `monthly` at which `notify` gets an alert.",
            examples=[["50%", "80%", "100%"]],
        ),
    ] = (Percent(50), Percent(80), Percent(100))
    on_breach: Annotated[
        OnBreach,
        Field(
            description="When AWS reports 100% of the cloud's part of `monthly`: notify people, or also let "
            "no node group grow any more; `drain-spot` does so too, and drains spot nodes at `drain_spot_at`."
        ),
    ] = "notify"
    drain_spot_at: Annotated[
        Percent | None,
        Field(
            description="The share of a budget from which `drain-spot` drains spot nodes, 100% or more; "
            "110% if left out.",
            examples=["120%"],
        ),
    ] = None
    anomalies: Annotated[
        Anomalies | None,
        Field(description="Reports of unusual cost, by AWS Cost Anomaly Detection; none if left out."),
    ] = None
    notify: Annotated[
        tuple[MailAddress, ...],
        Field(
            description="E-mail addresses of the recipients of budget alerts.",
            examples=[["ml-platform@example.com"]],
        ),
    ] = ()
    upfront: Annotated[Money | None, Field(description="What may be paid at once (Capacity Blocks).")] = None
    max_increase: Annotated[
        Money | None, Field(description="What one change may add to a month; no limit if it is left out.")
    ] = None
    ends: Annotated[
        Date | None,
        Field(
            description="The budget's last day: nothing may be committed beyond it.", examples=["2031-12-31"]
        ),
    ] = None
    sites: dict[Name, Money] = Field(
        default_factory=dict,
        description="What a month may cost of one site, by its name.",
        examples=[{"use1": "120000 USD"}],
    )
    node_groups: dict[SiteGroupName, Money] = Field(
        default_factory=dict,
        description="What a month may cost of one node group, by `site/name`.",
        examples=[{"use1/pretrain": "80000 USD"}],
    )
    teams: dict[Name, Money] = Field(
        default_factory=dict,
        description="What a month may cost of one team, by its name.",
        examples=[{"research": "40000 USD"}],
    )


class NodeImages(Model):
    """Releases of AWS's images of cloud nodes in place of those of the software channel."""

    eks: Annotated[
        ImageRelease | None,
        Field(description="The day of a release of EKS's image.", examples=["20260714"]),
    ] = None
    slurm: Annotated[
        ImageRelease | None,
        Field(description="The day of a release of the Deep Learning image.", examples=["20260929"]),
    ] = None


class Software(Model):
    """The software channel: one lock for driver, Fabric Manager, CUDA, NCCL, OFED and DCGM."""

    channel: Annotated[
        SoftwareChannel, Field(description="A channel of the catalog, as 2026.11.", examples=["2026.11"])
    ]
    node_images: Annotated[
        NodeImages, Field(description="Other releases of AWS's images of cloud nodes.")
    ] = NodeImages()


class FleetSpec(Model):
    """One environment of one fleet: a whole fleet file after `extends:` has been merged in."""

    api_version: Annotated[
        Literal["gpufleet/v1"], Field(alias="apiVersion", description="The version of this format.")
    ]
    fleet: Annotated[Name, Field(description="The fleet's name.", examples=["atlas"])]
    environment: Annotated[
        Name, Field(description="The environment's name, which is that of its folder.", examples=["prod"])
    ]
    budget: Annotated[Budget, Field(description="What the environment may cost.")]
    tags: Annotated[
        dict[TagKey, LabelValue],
        Field(
            description="On everything that can carry tags.",
            examples=[{"team": "ml-platform", "cost-center": "cc-4711", "project": "atlas"}],
        ),
    ]
    required_tags: Annotated[
        tuple[TagKey, ...],
        Field(description="Tags that have to be there.", examples=[["team", "cost-center", "project"]]),
    ] = (
        "team",
        "cost-center",
        "project",
    )
    cloud: Annotated[
        tuple[CloudSite, ...], Field(max_length=MOST_SITES, description="Cloud sites."), FEW_SITES
    ] = ()
    onprem: Annotated[
        tuple[OnPremSite, ...], Field(max_length=MOST_SITES, description="On-premises sites."), FEW_SITES
    ] = ()
    expires: Annotated[
        Date | None,
        Field(
            description="The last day of a temporary environment; a tag says so on everything.",
            examples=["2031-06-30"],
        ),
    ] = None
    policies: dict[Name, RuleSettings] = Field(
        default_factory=dict, description="Enforcement and settings of policy rules, by their names."
    )
    exemptions: Annotated[
        tuple[Exemption, ...], Field(description="Rules that single resources may break for a time.")
    ] = ()
    software: Annotated[Software, Field(description="Which versions are installed.")]
