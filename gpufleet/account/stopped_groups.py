"""Node groups that a breach of the budget stopped or drains: what is known of them, and how that ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from msgspec import Struct, field
from msgspec.structs import replace

from gpufleet.account.drained_groups import Drain, DrainRecords, call_off, instances_of
from gpufleet.errors import CloudError, InputError
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from gpufleet.plan.names import (
    BUDGET_REGION,
    BUDGET_SUFFIX,
    FALLBACK_SUFFIX,
    KARPENTER_SUFFIX,
    STOP_POLICY_SUFFIX,
    SYSTEM,
    cap_name,
    drained_groups_path,
    environment_resource_name,
    group_resource_name,
    site_resource_name,
    stopped_groups_parameter,
)

Clients = Callable[[str, str], Any]
"""Service and region -> boto3 client."""


class Breach(Struct, frozen=True):
    """The state of the budget in AWS: `spent` of `limit` USD this month, and the stopped groups with the
    maximum that each had. `since` is empty if none is stopped. `caps` has the same amounts of each site and
    team with a cap (`site-use1`), `drained` the groups whose spot nodes drain."""

    spent: Decimal
    limit: Decimal
    since: str
    before: Mapping[str, int]
    caps: Mapping[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    drained: Mapping[str, Drain] = field(default_factory=dict)

    @property
    def acts(self) -> bool:
        """Whether a group is stopped or drains."""
        return bool(self.before or self.drained)

    @property
    def spent_budgets(self) -> dict[str, tuple[Decimal, Decimal]]:
        """The budgets of which nothing is left; that of the environment is called ""."""
        return {
            name: amounts
            for name, amounts in {"": (self.spent, self.limit), **self.caps}.items()
            if amounts[0] >= amounts[1]
        }

    @property
    def is_spent(self) -> bool:
        """Whether a budget is spent, so that its next alert would stop its groups again."""
        return bool(self.spent_budgets)


class _Group(Struct, frozen=True):
    name: str
    site: CloudSitePlan
    region: str
    group: str
    cluster: str
    scaling_group: str
    least: int
    most: int


class StoppedGroups:
    """The groups of one environment. Sizes go back to those of the plan."""

    def __init__(self, plan: FleetPlan, account: str, clients: Clients) -> None:
        self._plan = plan
        self._account = account
        self._clients = clients
        self._parameter = stopped_groups_parameter(plan.fleet, plan.environment)
        self._drains = drained_groups_path(plan.fleet, plan.environment)

    def breach(self) -> Breach:
        """Return the state of the budget. Raises InputError if the environment has none in this account."""
        name = f"{environment_resource_name(self._plan.fleet, self._plan.environment)}{BUDGET_SUFFIX}"
        try:
            spent, limit = self._amounts(name)
            caps = dict(self._caps(name))
            kept = self._kept()
            drained = self._drained()
        except ClientError as error:
            if error.response["Error"]["Code"] == "NotFoundException":
                raise InputError(
                    f"the account ending in {self._account[-4:]} has no budget {name}",
                    remedy=f"run `gpufleet up {self._plan.environment}`, or use the account's credentials",
                ) from None
            raise _refused(error) from None
        except BotoCoreError as error:
            raise _refused(error) from None
        return Breach(
            spent,
            limit,
            str(kept.get("since", "")),
            {str(group): int(sizes[0]) for group, sizes in kept.get("groups", {}).items()},
            caps,
            drained,
        )

    def _drained(self) -> dict[str, Drain]:
        """Return the groups that drain, with the nodes that they have left."""
        if not self._plan.budget.drains_spot:
            return {}
        found = DrainRecords(self._clients("ssm", BUDGET_REGION), self._drains).read()
        left = dict.fromkeys(found.keys() - self._plan.launched_maxima().keys(), 0)
        for group in self._groups() if left else ():
            if group.name in left:
                scaling = self._clients("autoscaling", group.region)
                left[group.name] = len(instances_of(scaling, group.scaling_group))
        return {name: replace(drain, nodes=left.get(name)) for name, drain in found.items()}

    def _caps(self, name: str) -> Iterator[tuple[str, tuple[Decimal, Decimal]]]:
        """Yield the caps that are budgets in AWS; those of the fleet file may be newer than the last run."""
        caps, sites = self._plan.budget, [site.site for site in self._plan.cloud]
        for short in (
            *(cap_name("site", name) for name in sites if name in caps.sites),
            *(cap_name("team", name) for name in caps.teams),
        ):
            try:
                yield short, self._amounts(f"{name}-{short}")
            except ClientError as error:
                if error.response["Error"]["Code"] != "NotFoundException":
                    raise

    def _amounts(self, name: str) -> tuple[Decimal, Decimal]:
        """Return what is spent of a budget, and its limit."""
        budgets = self._clients("budgets", BUDGET_REGION)
        found = budgets.describe_budget(AccountId=self._account, BudgetName=name)["Budget"]
        spent = Decimal(found["CalculatedSpend"]["ActualSpend"]["Amount"])
        return spent, Decimal(found["BudgetLimit"]["Amount"])

    def resume(self, breach: Breach) -> dict[str, int]:
        """Give the groups the limits of the plan, those that drain their size as well, and forget the breach.

        A group that the plan no longer has gets the limits that it had. Returns group -> maximum. A group
        that does not exist any more is left out. The records go last, so that a failure can be repeated.
        """
        limits = _limits(self._plan)
        had = {name: drain.sizes[2] for name, drain in breach.drained.items()} | dict(breach.before)
        maxima = {name: limits[name][1] if name in limits else most for name, most in had.items()}
        # Slurm's controllers read the records: without them they launch nodes again.
        done = {name: maxima[name] for name in self._plan.launched_maxima() if name in maxima}
        records = DrainRecords(self._clients("ssm", BUDGET_REGION), self._drains)
        try:
            for name, drain in breach.drained.items():
                records.begin_resume(name, drain)
            for group in self._groups():
                if group.name not in maxima:
                    continue
                drained = breach.drained.get(group.name)
                least = group.least
                if drained is not None:
                    least = limits[group.name][0] if group.name in limits else drained.sizes[0]
                most = max(maxima[group.name], least, 1 if group.cluster else 0)
                if drained is None:
                    self._let_grow(group, most)
                else:
                    self._start_again(group, least, drained.sizes[1], most)
                done[group.name] = most
            done |= {name: maxima[name] for name in self._allow_launches(maxima)}
            for name in breach.drained:
                records.clear(name)
            self._clients("ssm", BUDGET_REGION).put_parameter(
                Name=self._parameter, Value="{}", Type="String", Overwrite=True
            )
        except (ClientError, BotoCoreError) as error:
            raise _refused(error) from None
        return done

    def _allow_launches(self, groups: Collection[str]) -> Iterator[str]:
        """Detach the policies that deny Karpenter the launches of these groups; yield those that had one."""
        iam = self._clients("iam", BUDGET_REGION)
        for site in self._plan.cloud:
            if site.kubernetes is None or site.kubernetes.karpenter is None:
                continue
            name = site_resource_name(self._plan.fleet, self._plan.environment, site.site)
            role = f"{name}{KARPENTER_SUFFIX}"
            attached = iam.get_paginator("list_attached_role_policies").paginate(RoleName=role)
            for policy in [each for page in attached for each in page["AttachedPolicies"]]:
                group = policy["PolicyName"].removesuffix(STOP_POLICY_SUFFIX)
                if group in groups:
                    iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
                    yield group

    def _kept(self) -> dict[str, Any]:
        ssm = self._clients("ssm", BUDGET_REGION)
        try:
            value: dict[str, Any] = json.loads(ssm.get_parameter(Name=self._parameter)["Parameter"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "ParameterNotFound":
                return {}
            raise
        return value

    def _groups(self) -> Iterator[_Group]:
        tags = {
            "gpufleet:fleet": self._plan.fleet,
            "gpufleet:environment": self._plan.environment,
        }
        for site in self._plan.cloud:
            if site.slurm is not None:
                continue
            yield from self._of_cluster(site, tags) if site.kubernetes else self._of_site(site, tags)

    def _of_cluster(self, site: CloudSitePlan, tags: Mapping[str, str]) -> Iterator[_Group]:
        eks = self._clients("eks", site.region)
        cluster = site_resource_name(self._plan.fleet, self._plan.environment, site.site)
        for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster):
            for name in page["nodegroups"]:
                found = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
                named = found.get("tags") or {}
                if not tags.items() <= named.items():
                    continue
                scale, own = found["scalingConfig"], found["resources"]["autoScalingGroups"][0]["name"]
                yield _Group(
                    named.get("Name", ""),
                    site,
                    site.region,
                    name,
                    cluster,
                    own,
                    scale["minSize"],
                    scale["maxSize"],
                )

    def _of_site(self, site: CloudSitePlan, tags: Mapping[str, str]) -> Iterator[_Group]:
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        pages = self._clients("autoscaling", site.region).get_paginator("describe_auto_scaling_groups")
        for page in pages.paginate(Filters=filters):
            for found in page["AutoScalingGroups"]:
                named = {tag["Key"]: tag["Value"] for tag in found["Tags"]}
                if named.get(f"{TAG_PREFIX}site", site.site) != site.site:
                    # Of another site in the same region.
                    continue
                name = found["AutoScalingGroupName"]
                least, most = found["MinSize"], found["MaxSize"]
                yield _Group(named.get("Name", ""), site, site.region, name, "", name, least, most)

    def _start_again(self, group: _Group, least: int, desired: int, most: int) -> None:
        """Call the drain of a group off, and give it its sizes: it launches the nodes that have ended."""
        scaling, site = self._clients("autoscaling", group.region), group.site
        if site.interruptions is not None:
            nodes = instances_of(scaling, group.scaling_group)
            sqs = self._clients("sqs", group.region)
            call_off(sqs, site.interruptions.queue, nodes, self._account, group.region)
        scaling.resume_processes(AutoScalingGroupName=group.scaling_group, ScalingProcesses=["Launch"])
        desired = min(max(desired, least), most)
        if group.cluster:
            self._clients("eks", group.region).update_nodegroup_config(
                clusterName=group.cluster,
                nodegroupName=group.group,
                scalingConfig={"minSize": least, "desiredSize": desired, "maxSize": most},
            )
        else:
            scaling.update_auto_scaling_group(
                AutoScalingGroupName=group.group, MinSize=least, DesiredCapacity=desired, MaxSize=most
            )

    def _let_grow(self, group: _Group, most: int) -> None:
        if not group.cluster:
            self._clients("autoscaling", group.region).update_auto_scaling_group(
                AutoScalingGroupName=group.group, MaxSize=most
            )
            return
        self._clients("autoscaling", group.region).resume_processes(
            AutoScalingGroupName=group.scaling_group, ScalingProcesses=["Launch"]
        )
        if group.most != most:
            self._clients("eks", group.region).update_nodegroup_config(
                clusterName=group.cluster,
                nodegroupName=group.group,
                scalingConfig={"minSize": group.least, "maxSize": most},
            )


def _limits(plan: FleetPlan) -> dict[str, tuple[int, int]]:
    """Return minimum and maximum of each growing group of the plan, by resource name."""
    found: dict[str, tuple[int, int]] = {}
    for site in plan.cloud:

        def name(group: str, site: str = site.site) -> str:
            return group_resource_name(plan.fleet, plan.environment, site, group)

        if site.kubernetes is not None:
            nodes = site.kubernetes.system_nodes
            found[name(SYSTEM)] = nodes.min, nodes.max
        for group in site.node_groups:
            # An order sets the size of its groups, which have no minimum.
            least = 0 if group.ordered else group.capacity.min
            found[name(group.name)] = least, group.capacity.max
            found[f"{name(group.name)}{FALLBACK_SUFFIX}"] = 0, group.capacity.max
    return found


def _refused(error: ClientError | BotoCoreError) -> CloudError:
    if isinstance(error, ClientError):
        return CloudError(
            f"AWS refuses {error.operation_name}: {error.response['Error'].get('Message', error)}",
            remedy="use credentials that may read the budget and change the node groups",
        )
    return CloudError(f"AWS does not respond: {error}", remedy="check the network and the region")
