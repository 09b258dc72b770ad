"""Cloud sites of the fleet file from what a region has: one for each network with nodes or file systems."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, get_args

from gpufleet.adopt.account import ClusterFacts, Facts, RegionFacts, has_access_entries, tags_of
from gpufleet.adopt.node_groups import eks_group, eks_types, group_name, merged, scaling_group
from gpufleet.adopt.remarks import AdoptedSite, Import, Remark
from gpufleet.catalog import Catalog
from gpufleet.kinds import EKS_ADDONS, LustreDeployment
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.names import SYSTEM, site_resource_name
from gpufleet.plan.subnets import plan_subnets

_ADMIN, _VIEWER = "AmazonEKSClusterAdminPolicy", "AmazonEKSAdminViewPolicy"


def cloud_sites(
    region: RegionFacts, catalog: Catalog, fleet: str, environment: str
) -> tuple[list[AdoptedSite], list[Remark]]:
    """Return a site for each network with node groups or file systems, and remarks on what has no site."""
    of_eks = {
        each["name"]
        for cluster in region.clusters
        for group in cluster.node_groups
        for each in (group.get("resources") or {}).get("autoScalingGroups") or ()
    }
    sites: list[AdoptedSite] = []
    others: list[Remark] = []
    used: set[str] = set()
    for vpc in region.vpcs:
        clusters = [
            each for each in region.clusters if each.cluster["resourcesVpcConfig"]["vpcId"] == vpc["VpcId"]
        ]
        subnets = [each for each in region.subnets if each["VpcId"] == vpc["VpcId"]]
        ids = {each["SubnetId"] for each in subnets}
        groups = [
            each
            for each in region.scaling_groups
            if each["AutoScalingGroupName"] not in of_eks
            and ids & set((each.get("VPCZoneIdentifier") or "").split(","))
        ]
        systems = [each for each in region.file_systems if ids & set(each["SubnetIds"])]
        if not (clusters or groups or systems):
            continue
        site = _Builder(region, catalog, vpc, subnets, _site_name(region.region, vpc, len(sites))).build(
            clusters, groups, systems
        )
        _imports(site, vpc, subnets, site_resource_name(fleet, environment, site.name))
        used |= _reservations_of(site)
        sites.append(site)
    pools = " or ".join(sorted(each for each in used if each.startswith("arn:")))
    for each in region.reservations.values():
        if each["CapacityReservationId"] not in used:
            others.append(
                Remark(
                    each["CapacityReservationId"],
                    f"{each['TotalInstanceCount']} x {each['InstanceType']} in {each['AvailabilityZone']} are"
                    " reserved and paid for, and no group launches into them"
                    + (f", unless they are in {pools}" if pools else ""),
                )
            )
    return sites, others


class _Builder:
    """A site of one network."""

    def __init__(
        self, region: RegionFacts, catalog: Catalog, vpc: Facts, subnets: list[Facts], name: str
    ) -> None:
        self._region, self._catalog, self._subnets = region, catalog, subnets
        zones = sorted({each["AvailabilityZone"] for each in subnets})
        network = {"cidr": vpc["CidrBlock"], "nat": self._nat(zones, vpc)}
        fields = {
            "site": name,
            "provider": "aws",
            "region": region.region,
            "zones": zones,
            "network": network,
        }
        self._site = AdoptedSite(name, fields, tags=tags_of(vpc))

    def build(self, clusters: list[ClusterFacts], groups: list[Facts], systems: list[Facts]) -> AdoptedSite:
        site = self._site
        site.fields["scheduler"] = "kubernetes" if clusters else "slurm"
        if clusters:
            self._cluster(clusters[0])
            for other in clusters[1:]:
                site.remark(other.cluster["name"], "a second cluster in this network: a site has one")
            for group in groups:
                site.remark(
                    group["AutoScalingGroupName"],
                    "an Auto Scaling group beside the cluster: a Kubernetes site has EKS node groups",
                )
        else:
            made = (scaling_group(each, self._region, self._catalog, site) for each in groups)
            site.fields["node_groups"] = merged(made)
        storage = [self._lustre(each) for each in systems]
        if storage:
            site.fields["storage"] = [each for each in storage if each]
        return site

    def _nat(self, zones: list[str], vpc: Facts) -> str:
        of_subnet = {each["SubnetId"]: each["AvailabilityZone"] for each in self._subnets}
        served = {
            of_subnet.get(each["SubnetId"])
            for each in self._region.nat_gateways
            if each["VpcId"] == vpc["VpcId"]
        }
        return "none" if not served else "per-zone" if len(served) == len(zones) > 1 else "single"

    def _cluster(self, facts: ClusterFacts) -> None:
        site, cluster = self._site, facts.cluster
        network = cluster["resourcesVpcConfig"]
        settings: dict[str, Any] = {"version": cluster["version"]}
        if network.get("endpointPublicAccess"):
            settings["public_cidrs"] = sorted(network.get("publicAccessCidrs") or ["0.0.0.0/0"])
        for policy, field in ((_ADMIN, "admins"), (_VIEWER, "viewers")):
            arns = sorted({arn for arn, granted in facts.access if granted == policy})
            if arns:
                settings[field] = arns
        if not has_access_entries(cluster):
            site.remark(
                cluster["name"],
                "its authentication mode is CONFIG_MAP: who may use it is in the ConfigMap aws-auth, which is"
                " not read. The fleet makes access entries: write their roles and users as `admins` and"
                " `viewers` of `kubernetes`",
            )
        others = sorted({granted for _, granted in facts.access} - {_ADMIN, _VIEWER})
        if others:
            site.remark(
                cluster["name"], f"access policies that the fleet does not manage: {', '.join(others)}"
            )
        settings |= self._system(facts)
        site.fields["kubernetes"] = settings
        made = (
            eks_group(each, self._region, self._catalog, site)
            for each in facts.node_groups
            if not self._is_system(each)
        )
        site.fields["node_groups"] = merged(made)
        self._teams(settings)
        extra = sorted({*facts.addons} - {*EKS_ADDONS, "aws-fsx-csi-driver"})
        if extra:
            site.remark(cluster["name"], f"add-ons that the fleet does not manage: {', '.join(extra)}")

    def _teams(self, settings: dict[str, Any]) -> None:
        """Declare the teams of the groups; their quotas are in the cluster, which is not read."""
        gpus: dict[str, int] = defaultdict(int)
        for group in self._site.fields["node_groups"]:
            if "team" in group:
                item = self._catalog.instances.get(next(iter(group["instance_types"]), ""))
                gpus[group["team"]] += (item.gpu_count if item else 0) * _most_nodes(group["capacity"])
        if gpus:
            settings["teams"] = [{"name": name, "gpus": count} for name, count in sorted(gpus.items())]
            self._site.remark(
                ", ".join(sorted(gpus)), "quotas in the cluster are not read: each team has its groups' GPUs"
            )

    def _system(self, facts: ClusterFacts) -> dict[str, Any]:
        found = [each for each in facts.node_groups if self._is_system(each)]
        if not found:
            return {}
        first = found[0]
        scaling = first["scalingConfig"]
        for other in found[1:]:
            self._site.remark(other["nodegroupName"], "nodes without GPUs: a cluster has one system group")
        types = eks_types(first, self._region)
        sizes = {"min": max(1, scaling["minSize"]), "max": scaling["maxSize"]}
        # Without types, the fleet has its own.
        return {"system_nodes": {**({"instance_types": types} if types else {}), **sizes}}

    def _is_system(self, group: Facts) -> bool:
        """Return whether a group carries the cluster's own services: by its tag, else without GPUs."""
        tagged = tags_of(group).get(f"{TAG_PREFIX}node-group")
        if tagged:
            return tagged == SYSTEM
        types = eks_types(group, self._region)
        known = [self._catalog.instances[each] for each in types if each in self._catalog.instances]
        return not any(each.accelerator for each in known)

    def _lustre(self, system: Facts) -> dict[str, Any]:
        site, lustre = self._site, system["LustreConfiguration"]
        tags = tags_of(system)
        name = tags.get(f"{TAG_PREFIX}storage") or group_name(
            tags.get("Name") or system["FileSystemId"], {}, ""
        )
        if lustre["DeploymentType"] not in get_args(LustreDeployment):
            site.remark(
                system["FileSystemId"], f"a file system of type {lustre['DeploymentType']}: not described"
            )
            return {}
        zones = {each["SubnetId"]: each["AvailabilityZone"] for each in self._subnets}
        made: dict[str, Any] = {
            "deployment": lustre["DeploymentType"].lower().replace("_", "-"),
            "capacity": f"{system['StorageCapacity']} GiB",
        }
        if lustre.get("PerUnitStorageThroughput"):
            made["throughput"] = f"{lustre['PerUnitStorageThroughput']} MB/s/TiB"
        if lustre.get("EfaEnabled"):
            made["efa"] = True
        metadata = lustre.get("MetadataConfiguration") or {}
        if metadata.get("Mode") == "USER_PROVISIONED":
            made["metadata_iops"] = metadata["Iops"]
        made |= self._link(system["FileSystemId"])
        if lustre.get("DataCompressionType") == "NONE":
            made["compression"] = "none"
        if lustre.get("AutomaticBackupRetentionDays"):
            made["backups"] = f"{lustre['AutomaticBackupRetentionDays']} d"
        made["zone"] = zones[system["SubnetIds"][0]]
        if lustre["DeploymentType"].startswith("PERSISTENT") and system.get("KmsKeyId"):
            made["kms_key"] = system["KmsKeyId"]
        site.remark(
            name,
            f"the stack makes a new file system beside {system['FileSystemId']}: copy its data, or take it"
            f" out of this file. AWS has no record of where nodes mount it: written as /fsx/{name}",
        )
        return {"name": name, "mount": f"/fsx/{name}", "lustre": made}

    def _link(self, system: str) -> dict[str, Any]:
        for each in self._region.links:
            if each.get("FileSystemId") == system and each.get("DataRepositoryPath", "").startswith("s3://"):
                exports = bool((each.get("S3") or {}).get("AutoExportPolicy", {}).get("Events"))
                return {"import_from": each["DataRepositoryPath"].rstrip("/")} | (
                    {"export": True} if exports else {}
                )
        return {}


def _most_nodes(capacity: dict[str, Any]) -> int:
    (option,) = capacity.values()
    held = next(iter(option.values())) if "reserved" in capacity else option
    return int(held.get("max", held.get("nodes", 0)))


def _imports(site: AdoptedSite, vpc: Facts, subnets: list[Facts], name: str) -> None:
    """Add imports: the network and its subnets where the fleet makes equal ones."""
    zones = site.fields["zones"]
    try:
        planned = {each.cidr: each for each in plan_subnets(vpc["CidrBlock"], zones)}
    except ValueError as error:
        site.remark(vpc["VpcId"], f"{error}: the fleet cannot cut this network")
        return
    site.imports.append(Import("aws:ec2/vpc:Vpc", f"{name}-vpc", vpc["VpcId"]))
    strange = []
    for each in subnets:
        plan = planned.get(each["CidrBlock"])
        if plan is None or plan.zone != each["AvailabilityZone"]:
            strange.append(each["CidrBlock"])
            continue
        label = f"{name}-{plan.kind}-{plan.zone}"
        site.imports.append(
            Import("aws:ec2/subnet:Subnet", label, each["SubnetId"], _balancer_tags(site, plan.kind, name))
        )
    if strange:
        site.remark(
            vpc["VpcId"],
            f"subnets {', '.join(sorted(strange))}: the fleet cuts the network into"
            f" {', '.join(sorted(planned))}; they stay, and nodes of the fleet start in new ones",
        )


def _balancer_tags(site: AdoptedSite, kind: str, name: str) -> dict[str, str]:
    """Return the tags by which a cluster's load balancers find a subnet (components/network.py)."""
    if site.fields["scheduler"] != "kubernetes":
        return {}
    role = "elb" if kind == "public" else "internal-elb"
    return {f"kubernetes.io/role/{role}": "1", f"kubernetes.io/cluster/{name}": "shared"}


def _site_name(region: str, vpc: Facts, number: int) -> str:
    """Return the site's name: from its tag, else short for the region (`use1`), counted from the second."""
    tagged = tags_of(vpc).get(f"{TAG_PREFIX}site")
    if tagged:
        return tagged
    area, *direction, last = region.split("-")
    letters = "".join(
        word[0] for word in re.findall("north|south|east|west|central|gov", "-".join(direction))
    )
    return f"{area}{letters}{last}" + (f"-{number + 1}" if number else "")


def _reservations_of(site: AdoptedSite) -> set[str]:
    held = (group["capacity"].get("reserved") for group in site.fields.get("node_groups", ()))
    return {each.get("id") or each["group"] for option in held if option for each in option.values()}
