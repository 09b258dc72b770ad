"""The effects of the fields of a cloud site."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.changes.change import NO_ONE, Approval, FieldChange, in_place, nothing
from gpufleet.changes.observe import Effect

_SITE = "all users of the site: every resource is created again, and the old one is deleted"
_BUCKET = "pods of the team: they lose access to the bucket"
_VOLUME = "pods of the team with the claim: it is deleted once they have ended; files stay"
_NOTICES = "no one: the handler restarts and goes on; a Slurm controller needs its new settings"
_CONTROLLERS = "no one: the controllers have it after `gpufleet configure`"
_BURSTS = "waiting jobs of the racks, after `gpufleet configure`: those on cloud nodes run to their end"
_TUNNELS = "traffic between the site and the racks, until the router has the new configuration"
_DIRECT = (
    "traffic through Direct Connect, until the new association exists (another account has to accept it); a"
    " VPN of the site takes over meanwhile"
)
_DIRECT_ENDS = "traffic between the site and the racks, unless the site has a VPN"
_LOGS = "traffic between the site and the racks: each tunnel is interrupted for minutes, one after the other"
_NAMES = "the site: names of the old domain are no longer those of the racks"
_AUTOSCALER = "no one: the autoscaler restarts"
_CORDONED = "no one: nodes that NVSentinel has cordoned stay so until `kubectl uncordon`"
_TEAM = "the team: a namespace is deleted with everything in it"

SITES: Mapping[str, tuple[FieldChange, ...]] = {
    "cloud[]": (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange(
            "remove an entry",
            Effect.REPLACEMENT,
            "all users of the site: every resource is deleted",
            Approval.DATA,
        ),
    ),
    "cloud[].site": (FieldChange("another name", Effect.REPLACEMENT, _SITE, Approval.DATA),),
    "cloud[].region": (FieldChange("another region", Effect.REPLACEMENT, _SITE, Approval.DATA),),
    "cloud[].zones": (
        FieldChange(
            "one more at the end", Effect.IN_PLACE, "no one: subnets of other zones keep their addresses"
        ),
        FieldChange(
            "one fewer",
            Effect.REPLACEMENT,
            "everything that runs in that zone; AWS rejects it while anything does",
        ),
    ),
    "cloud[].network.cidr": (FieldChange("another network", Effect.REPLACEMENT, _SITE, Approval.DATA),),
    "cloud[].network.nat": (
        FieldChange(
            "single to per-zone",
            Effect.IN_PLACE,
            "connections to the internet from other zones: they break once, as their route changes",
        ),
        FieldChange(
            "to none",
            Effect.REPLACEMENT,
            "connections to the internet: they end; AWS is reached through endpoints",
        ),
    ),
    "cloud[].network.vpn.gateway": (
        FieldChange("another address", Effect.REPLACEMENT, _TUNNELS),
        FieldChange("a VPN added", Effect.IN_PLACE, NO_ONE),
        FieldChange("the VPN removed", Effect.REPLACEMENT, "all traffic between the site and the racks"),
    ),
    "cloud[].network.vpn.asn": (FieldChange("another number", Effect.REPLACEMENT, _TUNNELS),),
    "cloud[].network.vpn.networks": (
        FieldChange("another list, with BGP", Effect.NOTHING, "no one: the router announces its networks"),
        FieldChange("more, with static routes", Effect.IN_PLACE, NO_ONE),
        FieldChange(
            "fewer, with static routes", Effect.REPLACEMENT, "traffic to the removed networks: it is cut off"
        ),
    ),
    "cloud[].network.vpn.static": (
        FieldChange(
            "on or off",
            Effect.REPLACEMENT,
            "all traffic between the site and the racks, until the router has the new configuration: the"
            " connection is made again, with other keys and addresses",
        ),
    ),
    "cloud[].network.vpn.logs": (
        FieldChange("on", Effect.IN_PLACE, _LOGS),
        FieldChange("off", Effect.REPLACEMENT, f"{_LOGS}; earlier logs are deleted"),
    ),
    "cloud[].network.direct_connect.gateway": (
        FieldChange("another one", Effect.REPLACEMENT, _DIRECT),
        FieldChange("Direct Connect added", Effect.IN_PLACE, NO_ONE),
        FieldChange("Direct Connect removed", Effect.REPLACEMENT, _DIRECT_ENDS),
    ),
    "cloud[].network.direct_connect.owner": (FieldChange("another account", Effect.REPLACEMENT, _DIRECT),),
    "cloud[].network.direct_connect.networks": (
        FieldChange(
            "another list, with `dns.inbound`",
            Effect.IN_PLACE,
            "DNS servers in removed networks: the site no longer answers them. Nothing else changes: routers"
            " announce their networks",
        ),
    ),
    "cloud[].network.dns.forward[]": (
        FieldChange("add an entry", Effect.IN_PLACE, "the site: the racks answer for the domain"),
        FieldChange("remove an entry", Effect.REPLACEMENT, _NAMES),
    ),
    "cloud[].network.dns.forward[].domain": (FieldChange("another domain", Effect.REPLACEMENT, _NAMES),),
    "cloud[].network.dns.forward[].servers": in_place("another list", "no one, if the new servers answer"),
    "cloud[].network.dns.inbound": (
        FieldChange("on", Effect.IN_PLACE, NO_ONE),
        FieldChange("off", Effect.REPLACEMENT, "the racks: names of the site's network have no answer"),
    ),
    "cloud[].scheduler": (
        FieldChange("another one", Effect.REPLACEMENT, "all users: every node group is replaced"),
    ),
    "cloud[].kubernetes.version": (
        FieldChange(
            "the next minor version",
            Effect.ROLLING,
            "running jobs of every node group, node by node, once the control plane and its add-ons are up to"
            " date: the software channel has the add-ons and the image of each version",
        ),
    ),
    "cloud[].kubernetes.private_cidrs": in_place("another list", "removed networks lose access to the API"),
    "cloud[].kubernetes.public_cidrs": (
        FieldChange("another list", Effect.IN_PLACE, "removed networks lose access to the API"),
        FieldChange(
            "to or from an empty one",
            Effect.IN_PLACE,
            "clients from outside: the public endpoint is removed or added",
        ),
    ),
    "cloud[].kubernetes.access": (
        FieldChange(
            "ssm to direct, or back", Effect.NOTHING, "no one: the next run reaches the API by the other way"
        ),
        FieldChange(
            "to phased",
            Effect.REPLACEMENT,
            "all teams: what gpufleet applied in the cluster is deleted, namespaces with everything in them",
            Approval.DATA,
        ),
    ),
    "cloud[].kubernetes.access_port": nothing("another port", "no one: the next run uses it"),
    "cloud[].interruptions.checkpoint": (
        FieldChange("another duration", Effect.IN_PLACE, _NOTICES, slurm=Effect.NOTHING),
    ),
    "cloud[].interruptions.rebalance": (
        FieldChange("cordon to drain, or back", Effect.IN_PLACE, _NOTICES, slurm=Effect.NOTHING),
        FieldChange("to ignore", Effect.REPLACEMENT, "no one: the rule of EventBridge is deleted"),
    ),
    "cloud[].interruptions.before_maintenance": (
        FieldChange("another duration", Effect.IN_PLACE, _NOTICES, slurm=Effect.NOTHING),
    ),
    "cloud[].slurm.controllers": in_place(
        "another rack site", "running nodes: they stay in the other cluster, which can no longer reach them"
    ),
    "cloud[].slurm.identity": in_place("another one", "controllers with the old one launch no more nodes"),
    "cloud[].slurm.suspend_after": nothing("another duration", _CONTROLLERS),
    "cloud[].slurm.resume_within": nothing("another duration", _CONTROLLERS),
    "cloud[].slurm.retry_after": nothing("another duration", _CONTROLLERS),
    "cloud[].slurm.servers": (
        FieldChange(
            "`controllers` of a rack site instead",
            Effect.REPLACEMENT,
            "all jobs and users: servers and their file systems are deleted",
            Approval.DATA,
        ),
    ),
    "cloud[].slurm.servers.image": nothing("another image", "no one: servers that exist keep theirs"),
    "cloud[].slurm.servers.controllers.hosts": (
        FieldChange("one more", Effect.IN_PLACE, "no one; run `gpufleet configure`: the state moves to EFS"),
        FieldChange(
            "one fewer",
            Effect.REPLACEMENT,
            "all jobs: the state that controllers share is deleted",
            Approval.DATA,
        ),
    ),
    "cloud[].slurm.servers.controllers.instance_type": in_place(
        "another type", "no one: running jobs go on while the controllers restart"
    ),
    "cloud[].slurm.servers.controllers.volume": in_place("a larger one"),
    "cloud[].slurm.servers.login.hosts": (
        FieldChange("one more", Effect.IN_PLACE, "no one; run `gpufleet configure`"),
        FieldChange("one fewer", Effect.REPLACEMENT, "users of the last login host, and files on its disk"),
    ),
    "cloud[].slurm.servers.login.instance_type": in_place(
        "another type", "users of the login hosts, which restart"
    ),
    "cloud[].slurm.servers.login.volume": in_place("a larger one"),
    "cloud[].slurm.servers.ssh.user": nothing("another name", "no one: the next `configure` uses it"),
    "cloud[].slurm.servers.ssh.keys": nothing("another list", "no one: only new servers get it"),
    "cloud[].slurm.servers.ssh.access": nothing("ssm or direct", "no one: the next `configure` uses it"),
    "cloud[].slurm.servers.shared": (
        FieldChange("another folder", Effect.IN_PLACE, "no one: nodes mount it there from their next launch"),
        FieldChange("left out", Effect.REPLACEMENT, "all users: the file system is deleted", Approval.DATA),
    ),
    "cloud[].slurm.burst.teams": nothing("another list", _BURSTS),
    "cloud[].slurm.burst.monthly": nothing("another amount", _BURSTS),
    "cloud[].slurm.burst.after": nothing("another duration", _BURSTS),
    "cloud[].slurm.burst.partitions": nothing("another list", _BURSTS),
    "cloud[].slurm.burst.groups": nothing("another list", _BURSTS),
    "cloud[].ordered_capacity[]": (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange("remove an entry", Effect.IN_PLACE, "no one: nodes that were drawn go on"),
    ),
    "cloud[].ordered_capacity[].name": in_place("another name"),
    "cloud[].ordered_capacity[].nodes": (
        FieldChange("more", Effect.IN_PLACE, NO_ONE),
        FieldChange(
            "fewer", Effect.IN_PLACE, "running jobs on the removed nodes, which are those of the last groups"
        ),
    ),
    "cloud[].ordered_capacity[].at_least": in_place("another number"),
    "cloud[].ordered_capacity[].groups": in_place(
        "another list", "no one: nodes of a removed group go on, and are not counted"
    ),
    "cloud[].kubernetes.admins": in_place("another list", "removed roles lose access to the cluster"),
    "cloud[].kubernetes.viewers": in_place("another list", "removed roles can no longer preview"),
    "cloud[].kubernetes.gpu_stack": (
        FieldChange(
            "another one",
            Effect.REPLACEMENT,
            "new GPU pods, until the other stack's plugin has registered; running ones keep their GPUs",
        ),
    ),
    "cloud[].kubernetes.neuron_scheduler": (
        FieldChange(
            "on or off",
            Effect.REPLACEMENT,
            "new pods with `schedulerName: neuron-scheduler`: without it they wait; running ones keep their"
            " devices",
        ),
    ),
    "cloud[].kubernetes.autoscaler.kind": (
        FieldChange(
            "to none",
            Effect.REPLACEMENT,
            "pods that wait: no group grows for them; nodes stay, and the autoscaler is deleted",
        ),
        FieldChange(
            "between cluster-autoscaler and karpenter",
            Effect.REPLACEMENT,
            "jobs on groups that can change their size: node pools take their place (or the other way round),"
            " and their nodes drain and end",
        ),
        FieldChange(
            "from karpenter to none",
            Effect.REPLACEMENT,
            "jobs on node pools: node groups take their place, and their nodes drain and end",
        ),
    ),
    "cloud[].kubernetes.autoscaler.changed_nodes": in_place(
        "the other one", "no one: it is for later changes of a group"
    ),
    "cloud[].kubernetes.autoscaler.reserved_nodes": (
        FieldChange(
            "the other one",
            Effect.REPLACEMENT,
            "jobs in reservations and Capacity Blocks: node pools take the place of node groups (or the other"
            " way round), and their nodes drain and end; the reservations stay",
        ),
    ),
    "cloud[].kubernetes.autoscaler.scale_down": in_place("on or off", _AUTOSCALER),
    "cloud[].kubernetes.autoscaler.scale_down_after": in_place("another duration", _AUTOSCALER),
    "cloud[].kubernetes.autoscaler.expander": in_place("another one", _AUTOSCALER),
    "cloud[].kubernetes.queues.kind": (
        FieldChange(
            "Kueue added", Effect.IN_PLACE, "new jobs of teams: they wait for quota instead of failing"
        ),
        FieldChange(
            "to none",
            Effect.REPLACEMENT,
            "jobs that wait in a queue: they stay suspended; Kueue and its queues are deleted",
        ),
    ),
    "cloud[].kubernetes.queues.topology": (
        FieldChange(
            "on or off", Effect.REPLACEMENT, "no one: nodes get other flavors, and admitted jobs go on"
        ),
    ),
    "cloud[].kubernetes.queues.jobset": (
        FieldChange("on", Effect.IN_PLACE, NO_ONE),
        FieldChange("off", Effect.REPLACEMENT, "JobSets: nothing acts on them; their jobs go on"),
    ),
    "cloud[].kubernetes.queues.leader_worker_set": (
        FieldChange("on", Effect.IN_PLACE, NO_ONE),
        FieldChange("off", Effect.REPLACEMENT, "LeaderWorkerSets: nothing acts on them; their pods go on"),
    ),
    "cloud[].kubernetes.fault_repair.kind": (FieldChange("to none", Effect.REPLACEMENT, _CORDONED),),
    "cloud[].kubernetes.fault_repair.action": (
        FieldChange("more than before", Effect.IN_PLACE, NO_ONE),
        FieldChange("to detect", Effect.REPLACEMENT, f"{_CORDONED}; its database is deleted"),
    ),
    "cloud[].kubernetes.fault_repair.drain_after": in_place(
        "another duration", "no one: a drain that has begun takes the new time when the module restarts"
    ),
    "cloud[].kubernetes.system_nodes.instance_types": (
        FieldChange(
            "another type",
            Effect.REPLACEMENT,
            "the cluster's own services: they move to new nodes, which start before the old ones stop",
        ),
        FieldChange(
            "Graviton types instead, or back",
            Effect.REPLACEMENT,
            "the cluster's own services, and your pods there: they move to new nodes of the other kind",
        ),
    ),
    "cloud[].kubernetes.system_nodes.min": in_place("another number"),
    "cloud[].kubernetes.system_nodes.max": in_place("another number"),
    "cloud[].kubernetes.teams[]": (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange("remove an entry", Effect.REPLACEMENT, _TEAM),
    ),
    "cloud[].kubernetes.teams[].name": (FieldChange("another name", Effect.REPLACEMENT, _TEAM),),
    "cloud[].kubernetes.teams[].gpus": in_place("another number", "new pods of the team; running ones stay"),
    "cloud[].kubernetes.teams[].gpu_shares": in_place(
        "another number", "new pods of the team; running ones stay"
    ),
    "cloud[].kubernetes.teams[].neuron_devices": in_place(
        "another number", "new pods of the team; running ones stay"
    ),
    "cloud[].kubernetes.teams[].priority": in_place("another one", "new pods of the team; running ones stay"),
    "cloud[].kubernetes.teams[].buckets[]": (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange("remove one of several", Effect.IN_PLACE, _BUCKET),
        FieldChange("remove the last", Effect.REPLACEMENT, _BUCKET),
        FieldChange("remove a mounted one", Effect.REPLACEMENT, _VOLUME),
    ),
    "cloud[].kubernetes.teams[].buckets[].storage": (
        *in_place("another bucket", _BUCKET),
        FieldChange("another bucket, mounted", Effect.REPLACEMENT, _VOLUME),
    ),
    "cloud[].kubernetes.teams[].buckets[].access": (
        *in_place("another one", "pods of the team, at once"),
        FieldChange("another one of a mounted bucket", Effect.REPLACEMENT, _VOLUME),
    ),
    "cloud[].kubernetes.teams[].buckets[].mount": (
        FieldChange("on", Effect.IN_PLACE, NO_ONE),
        FieldChange("off", Effect.REPLACEMENT, _VOLUME),
    ),
    "cloud[].kubernetes.teams[].file_systems[]": (
        FieldChange("add an entry", Effect.IN_PLACE, NO_ONE),
        FieldChange("remove an entry", Effect.REPLACEMENT, _VOLUME),
    ),
    "cloud[].kubernetes.teams[].file_systems[].storage": (
        FieldChange("another file system", Effect.REPLACEMENT, _VOLUME),
    ),
    "cloud[].kubernetes.teams[].file_systems[].access": (
        FieldChange("another one", Effect.REPLACEMENT, _VOLUME),
    ),
}
