"""Documented changes of cloud sites, and of what runs in their clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.changes_case import PLUGINS, SITES, Case
from tests.e2e.changes_fleet import GONE, OTHER, small
from tests.e2e.changes_racks import KEY

MOUNTED, COLD = {"storage": "data", "mount": True}, {"storage": "cold"}
"""The buckets of team red, which is the only one that mounts some."""

MOUNTS = r"chg-test-kube-(base-red-(data|spare)(-shared)?(-r[wo])?$|red-data$|aws-mountpoint-s3-csi-driver$)"


def _site(site: str, path: str, how: str, value: Any, *, scheduler: str = "slurm") -> Case:
    return Case(
        f"cloud[].{path}", how, {f"cloud[{site}].{path}": value}, rf" chg-test-{site}(-|$)", scheduler
    )


def _kube(path: str, how: str, value: Any, claims: str, *, at: str = "") -> Case:
    return Case(f"cloud[].kubernetes.{path}", how, {f"cloud[kube].kubernetes.{at or path}": value}, claims)


def site_cases() -> Iterator[Case]:
    """Sites, their networks, and settings of a whole cluster."""
    yield Case(
        "cloud[]",
        "add an entry",
        {"cloud[new]": small("new", "us-west-2", "10.44.0.0/16")},
        " chg-test-new(-|$)",
        "slurm",
    )
    yield Case("cloud[]", "remove an entry", {"cloud[far]": GONE}, " chg-test-far(-|$)", "slurm")
    yield Case(
        "cloud[].site", "another name", {"cloud[far].site": "away"}, " chg-test-(far|away)(-|$)", "slurm"
    )
    yield Case(
        "cloud[].region",
        "another region",
        {
            "cloud[near].region": "us-east-2",
            "cloud[near].zones": ["us-east-2a", "us-east-2b"],
            "cloud[near].node_groups[only].zones": ["us-east-2a"],
        },
        " chg-test-near(-|$)",
        "slurm",
    )
    yield _site("far", "zones", "one more at the end", ["us-west-2a", "us-west-2b", "us-west-2c"])
    yield _site("near", "zones", "one fewer", ["us-west-2a"])
    yield _site("near", "network.cidr", "another network", "10.45.0.0/16")
    yield _site("near", "network.nat", "single to per-zone", "per-zone")
    yield _site("near", "network.nat", "to none", "none")
    yield from _vpns()
    yield from _direct_connect()
    yield from _dns()
    yield _site("far", "scheduler", "another one", "kubernetes")
    yield Case(
        "cloud[].kubernetes.version",
        "the next minor version",
        {"cloud[kube].kubernetes.version": "1.35"},
        # The second scheduler has the cluster's version.
        "aws:(eks/(cluster|nodeGroup|addon)|ec2/launchTemplate):.* chg-test-kube(?!-(added|other))"
        "|Deployment chg-test-kube-base-neuron-scheduler",
    )
    yield _kube(
        "private_cidrs",
        "another list",
        ["10.60.0.0/24", "10.61.0.0/24"],
        "SecurityGroupIngressRule chg-test-kube-api-",
    )
    yield _kube("public_cidrs", "another list", ["203.0.113.0/24"], "eks/cluster:Cluster chg-test-kube")
    yield _kube("public_cidrs", "to or from an empty one", [], "eks/cluster:Cluster chg-test-kube")
    yield _kube("access", "ssm to direct, or back", "ssm", "")
    yield _kube("access", "to phased", "phased", "chg-test-kube-(base|notices)")
    yield Case(
        "cloud[].kubernetes.access_port",
        "another port",
        {"cloud[kube].kubernetes.access": "ssm", "cloud[kube].kubernetes.access_port": 20443},
    )
    yield _kube("viewers", "another list", ["arn:aws:iam::123456789012:role/second-viewer"], "aws:eks/access")
    yield _kube("admins", "another list", ["arn:aws:iam::123456789012:role/second"], "aws:eks/access")
    yield from _notices()
    yield from _orders()
    yield from _burst()
    yield from _servers()
    yield Case(
        "cloud[].kubernetes.gpu_stack",
        "another one",
        # MPS is the operator's.
        {"cloud[kube].kubernetes.gpu_stack": "device-plugin", "cloud[kube].node_groups[served]": GONE},
        f":ConfigMap chg-test-kube-base|{PLUGINS}|chg-test-kube-(served|sliced)",
    )
    system = "eks/nodeGroup:NodeGroup chg-test-kube-system"
    yield _kube("system_nodes.instance_types", "another type", ["m7i.2xlarge"], system)
    scheduler = "chg-test-kube-base-neuron-scheduler"
    yield _kube("neuron_scheduler", "on or off", False, scheduler)
    yield Case(
        "cloud[].kubernetes.system_nodes.instance_types",
        "Graviton types instead, or back",
        {
            "cloud[kube].kubernetes.system_nodes.instance_types": ["m7g.xlarge"],
            # Its extension is not known for Arm.
            "cloud[kube].kubernetes.neuron_scheduler": False,
        },
        f"(eks/nodeGroup:NodeGroup|ec2/launchTemplate:LaunchTemplate) chg-test-kube-system|{scheduler}",
    )
    yield from _autoscaler()
    yield from _queues()
    yield from _fault_repair()
    yield _kube("system_nodes.min", "another number", 3, system)
    yield _kube("system_nodes.max", "another number", 4, system)
    yield _kube(
        "teams[]", "add an entry", {"name": "white", "gpus": 1}, "chg-test-kube-base-white", at="teams[white]"
    )
    yield _kube("teams[]", "remove an entry", GONE, "chg-test-kube-base-green", at="teams[green]")
    yield _kube(
        "teams[].name", "another name", "azure", "chg-test-kube-base-(green|azure)", at="teams[green].name"
    )
    for team, how, value in (
        ("green", "add an entry", [{"storage": "data"}]),
        ("red", "remove one of several", [MOUNTED]),
        ("blue", "remove the last", []),
    ):
        claims = f"chg-test-kube-(base-{team}|{team}-data$)"
        yield _kube("teams[].buckets[]", how, value, claims, at=f"teams[{team}].buckets")
    access = "chg-test-kube-blue-data$"
    yield _kube(
        "teams[].buckets[].storage",
        "another bucket",
        [{"storage": "cold", "access": "read"}],
        access,
        at="teams[blue].buckets",
    )
    yield _kube(
        "teams[].buckets[].access", "another one", [{"storage": "data"}], access, at="teams[blue].buckets"
    )
    for field, how, value in (
        ("", "remove a mounted one", [COLD]),
        (".storage", "another bucket, mounted", [{"storage": "spare", "mount": True}, COLD]),
        (".access", "another one of a mounted bucket", [{**MOUNTED, "access": "read"}, COLD]),
        (".mount", "off", [{"storage": "data"}, COLD]),
    ):
        yield _kube(f"teams[].buckets[]{field}", how, value, MOUNTS, at="teams[red].buckets")
    yield _kube(
        "teams[].buckets[].mount",
        "on",
        [{"storage": "data", "access": "read", "mount": True}],
        "chg-test-kube-base-blue-data(-|$)",
        at="teams[blue].buckets",
    )
    for field, how, team, value, claims in (
        ("", "add an entry", "green", [{"storage": "pods-a"}], "green(-|$)"),
        ("", "remove an entry", "red", [], "red-pods-a(-rw)?$"),
        (
            ".storage",
            "another file system",
            "blue",
            [{"storage": "pods-c"}, {"storage": "pods-b"}],
            "blue-pods-[ac](-rw)?$",
        ),
        (
            ".access",
            "another one",
            "blue",
            [{"storage": "pods-a"}, {"storage": "pods-b", "access": "read"}],
            "blue-pods-b(-r[wo])?$",
        ),
    ):
        yield _kube(
            f"teams[].file_systems[]{field}",
            how,
            value,
            f"chg-test-kube-base-{claims}",
            at=f"teams[{team}].file_systems",
        )
    yield _kube(
        "teams[].gpu_shares",
        "another number",
        8,
        "ResourceQuota chg-test-kube-base-green-gpu-shares",
        at="teams[green].gpu_shares",
    )
    yield _kube(
        "teams[].neuron_devices",
        "another number",
        1,
        "ResourceQuota chg-test-kube-base-green-neuron",
        at="teams[green].neuron_devices",
    )
    yield _kube("teams[].gpus", "another number", 8, "chg-test-kube-base-red", at="teams[red].gpus")
    yield _kube(
        "teams[].priority", "another one", "normal", "chg-test-kube-base-blue", at="teams[blue].priority"
    )


def _autoscaler() -> Iterator[Case]:
    """Settings of the autoscaler are flags of its Deployment; without it, groups lose its tags too."""
    place = "cloud[scaled].kubernetes.autoscaler"
    for field, how, value, claims in (
        ("kind", "to none", "none", " chg-test-scaled-(?!queues)"),
        ("scale_down", "on or off", False, "Deployment chg-test-scaled-scaling$"),
        ("scale_down_after", "another duration", "30 min", "Deployment chg-test-scaled-scaling$"),
        ("expander", "another one", "priority", "Deployment chg-test-scaled-scaling$"),
    ):
        yield Case(f"cloud[].kubernetes.autoscaler.{field}", how, {f"{place}.{field}": value}, claims)
    kind, pools = "cloud[].kubernetes.autoscaler.kind", "cloud[pooled].kubernetes.autoscaler"
    other = {f"{place}.kind": "karpenter"}
    yield Case(kind, "between cluster-autoscaler and karpenter", other, " chg-test-scaled-(?!queues)")
    yield Case(kind, "from karpenter to none", {f"{pools}.kind": "none"}, " chg-test-pooled-")
    yield Case(
        "cloud[].kubernetes.autoscaler.changed_nodes",
        "the other one",
        {f"{pools}.changed_nodes": "when-idle"},
        "NodePool chg-test-pooled-(only|kept)$",
    )
    yield Case(
        "cloud[].kubernetes.autoscaler.reserved_nodes",
        "the other one",
        {f"{pools}.reserved_nodes": "node-groups"},
        " chg-test-pooled-(kept|karpenter)",
    )


def _queues() -> Iterator[Case]:
    """Kueue with its objects, and the controllers of two kinds of jobs."""
    field = "cloud[].kubernetes.queues"
    added, place = "cloud[scaled].kubernetes.queues", "cloud[queued].kubernetes.queues"
    yield Case(f"{field}.kind", "Kueue added", {added: {}}, " chg-test-scaled-queues")
    yield Case(f"{field}.kind", "to none", {place: GONE}, " chg-test-queued-(queues|base-lab$)")
    flavors = "(ResourceFlavor|ClusterQueue|Topology) chg-test-queued-queues"
    yield Case(f"{field}.topology", "on or off", {f"{place}.topology": False}, flavors)
    for name, part in (("jobset", "jobset"), ("leader_worker_set", "lws")):
        on, off = {added: {name: True}}, {f"{place}.{name}": False}
        yield Case(f"{field}.{name}", "on", on, " chg-test-scaled-queues")
        yield Case(f"{field}.{name}", "off", off, f" chg-test-queued-queues-{part}$")


def _fault_repair() -> Iterator[Case]:
    """Without NVSentinel the GPU Operator has no DCGM service. A database needs a class and a chart."""
    place, row = "cloud[scaled].kubernetes.fault_repair", "cloud[].kubernetes.fault_repair"
    releases = "Release chg-test-scaled-repair$"
    whole = f"({releases}|Release chg-test-scaled-repair-cert-manager$|StorageClass chg-test-scaled-repair$"
    component = "gpufleet:kubernetes:Nvsentinel chg-test-scaled-repair$"
    operator = "Release chg-test-scaled-base-gpu-operator$"
    yield Case(f"{row}.kind", "to none", {f"{place}.kind": "none"}, f"{whole}|{component}|{operator})")
    yield Case(f"{row}.action", "more than before", {f"{place}.action": "drain"}, releases)
    yield Case(f"{row}.action", "to detect", {f"{place}.action": "detect"}, f"{whole})")
    draining = {f"{place}.action": "drain", f"{place}.drain_after": "5 min"}
    yield Case(f"{row}.drain_after", "another duration", draining, releases)


def _notices() -> Iterator[Case]:
    """What the handler of notices does: its settings in the cluster, and in a Slurm site only outputs."""
    handler = r"kubernetes:apps/v1:Deployment chg-test-kube-notices"
    rule = r"aws:(cloudwatch/event(Rule|Target):.* chg-test-kube-notices-rebalance|sqs/queuePolicy:)"
    for field, how, value in (
        ("checkpoint", "another duration", "60 s"),
        ("before_maintenance", "another duration", "2 h"),
        ("rebalance", "cordon to drain, or back", "drain"),
    ):
        path = f"cloud[].interruptions.{field}"
        yield Case(path, how, {f"cloud[kube].interruptions.{field}": value}, handler)
        yield Case(path, how, {f"cloud[batch].interruptions.{field}": value}, scheduler="slurm")
    ignored = {"cloud[kube].interruptions.rebalance": "ignore"}
    yield Case("cloud[].interruptions.rebalance", "to ignore", ignored, f"{handler}|{rule}")


def _vpns() -> Iterator[Case]:
    """A site with a VPN and BGP, one with static routes, and one that gets a VPN."""
    far, more = "203.0.113.9", ["10.60.0.0/24", "10.61.0.0/24", "10.62.0.0/24"]
    for site, scheduler, field, how, value in (
        ("burst", "slurm", "gateway", "another address", far),
        ("burst", "slurm", "asn", "another number", 65011),
        ("burst", "slurm", "networks", "another list, with BGP", ["10.95.0.0/24"]),
        ("kube", "kubernetes", "networks", "more, with static routes", more),
        ("kube", "kubernetes", "networks", "fewer, with static routes", ["10.60.0.0/24"]),
        ("kube", "kubernetes", "static", "on or off", False),
        ("burst", "slurm", "logs", "on", True),
        ("kube", "kubernetes", "logs", "off", False),
    ):
        yield Case(
            f"cloud[].network.vpn.{field}",
            how,
            {f"cloud[{site}].network.vpn.{field}": value},
            "" if how.endswith("with BGP") else f" chg-test-{site}-vpn(-|$)",
            scheduler,
        )
    gateway = "cloud[].network.vpn.gateway"
    # All of the site, so that nothing else changes there in the same preview: its VPN does not exist yet.
    added = {"cloud[near].network.vpn": {"gateway": far, "networks": ["10.95.0.0/24"]}}
    yield Case(gateway, "a VPN added", added, " chg-test-near(-|$)", "slurm")
    removed = "(gpufleet:network:SiteVpn chg-test-kube$| chg-test-kube-vpn(-|$))"
    yield Case(gateway, "the VPN removed", {"cloud[kube].network.vpn": GONE}, removed)


def _direct_connect() -> Iterator[Case]:
    """A site with an association that is proposed to the account of the gateway, and one that gets it."""
    other, racks = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", ["10.97.0.0/24"]
    path, claims = "cloud[].network.direct_connect", " chg-test-far-direct-connect$"
    for field, how, value in (
        ("gateway", "another one", other),
        ("owner", "another account", "777788889999"),
    ):
        changes = {f"cloud[far].network.direct_connect.{field}": value}
        yield Case(f"{path}.{field}", how, changes, claims, "slurm")
    changes = {"cloud[far].network.direct_connect.networks": racks}
    queries = r"SecurityGroupIngressRule chg-test-far-dns-inbound-"
    yield Case(f"{path}.networks", "another list, with `dns.inbound`", changes, queries, "slurm")
    added = {"cloud[near].network.direct_connect": {"gateway": other, "networks": racks}}
    yield Case(f"{path}.gateway", "Direct Connect added", added, " chg-test-near(-|$)", "slurm")
    whole = (
        r"(gpufleet:network:(SiteVpn|DirectConnect) chg-test-far$| chg-test-far-(vpn|direct-connect)(-|$))"
    )
    # DNS needs a connection.
    removed = {"cloud[far].network.direct_connect": GONE, "cloud[far].network.dns": GONE}
    yield Case(f"{path}.gateway", "Direct Connect removed", removed, f"{whole}|{_DNS}", "slurm")


_DNS = r"(gpufleet:network:SiteDns chg-test-far$| chg-test-far-dns(-|$))"


def _dns() -> Iterator[Case]:
    """A site with both endpoints and one domain, and one that gets an endpoint."""
    path, at = "cloud[].network.dns", "cloud[far].network.dns"
    first = {"domain": "corp.example", "servers": ["10.97.0.53"]}
    second = {"domain": "lab.example", "servers": ["10.97.0.53"]}
    rules = r" chg-test-far-dns-(corp|lab).example$"
    yield Case(f"{path}.forward[]", "add an entry", {f"{at}.forward": [first, second]}, rules, "slurm")
    gone = r"(aws:.* chg-test-far-dns-(outbound|corp)|gpufleet:network:SiteDns chg-test-far$)"
    yield Case(f"{path}.forward[]", "remove an entry", {f"{at}.forward": []}, gone, "slurm")
    another = {f"{at}.forward": [{**first, "domain": "lab.example"}]}
    yield Case(f"{path}.forward[].domain", "another domain", another, rules, "slurm")
    servers = {f"{at}.forward": [{**first, "servers": ["10.98.0.53"]}]}
    asked = r"(ResolverRule chg-test-far-dns-corp.example$|EgressRule chg-test-far-dns-outbound-)"
    yield Case(f"{path}.forward[].servers", "another list", servers, asked, "slurm")
    # With its connection: another change of the networks behind it would change its rules as well.
    direct = {"gateway": "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", "networks": ["10.97.0.0/24"]}
    added = {"cloud[near].network.dns": {"inbound": True}, "cloud[near].network.direct_connect": direct}
    yield Case(f"{path}.inbound", "on", added, " chg-test-near(-|$)", "slurm")
    off = r"(aws:.* chg-test-far-dns-inbound|gpufleet:network:SiteDns chg-test-far$)"
    yield Case(f"{path}.inbound", "off", {f"{at}.inbound": False}, off, "slurm")


def _burst() -> Iterator[Case]:
    """A site whose nodes the Slurm of a rack site launches."""
    for field, how, value in (
        ("controllers", "another rack site", "west"),
        ("identity", "another one", "arn:aws:iam::123456789012:role/west"),
        ("suspend_after", "another duration", "5 min"),
        ("resume_within", "another duration", "15 min"),
        ("retry_after", "another duration", "20 min"),
        ("burst.teams", "another list", ["blue"]),
        ("burst.monthly", "another amount", "700 USD"),
        ("burst.after", "another duration", "1 h"),
        ("burst.partitions", "another list", ["gpu"]),
        ("burst.groups", "another list", ["launched"]),
    ):
        silent = field not in ("controllers", "identity")
        yield Case(
            f"cloud[].slurm.{field}",
            how,
            {f"cloud[burst].slurm.{field}": value},
            "" if silent else " chg-test-burst(-|$)",
            "slurm",
        )


def _servers() -> Iterator[Case]:
    """Sites with a Slurm of their own."""
    instead = {"controllers": "east", "identity": "arn:aws:iam::123456789012:role/east"}
    yield Case(
        "cloud[].slurm.servers",
        "`controllers` of a rack site instead",
        {"cloud[paired].slurm": instead},
        " chg-test-paired(-|$)",
        "slurm",
    )
    hosts = "(launched|slurm-(ctl2|state))"
    for site, field, how, value, claims in (
        ("alone", "image", "another image", OTHER, ""),
        (
            "alone",
            "controllers.hosts",
            "one more",
            2,
            f"chg-test-alone-{hosts}",
        ),
        (
            "paired",
            "controllers.hosts",
            "one fewer",
            1,
            f"chg-test-paired-{hosts}",
        ),
        ("alone", "controllers.instance_type", "another type", "m7i.large", "chg-test-alone-slurm-ctl1"),
        (
            "paired",
            "controllers.volume",
            "a larger one",
            "200 GiB",
            "chg-test-paired-slurm-ctl[12]",
        ),
        ("alone", "login.hosts", "one more", 3, "chg-test-alone-slurm-login3"),
        ("paired", "login.hosts", "one fewer", 1, "chg-test-paired-slurm-login2"),
        ("alone", "login.instance_type", "another type", "m7i.large", "chg-test-alone-slurm-login[12]"),
        (
            "paired",
            "login.volume",
            "a larger one",
            "200 GiB",
            "chg-test-paired-slurm-login[12]",
        ),
        ("alone", "ssh.user", "another name", "admin", ""),
        ("alone", "ssh.keys", "another list", [KEY], ""),
        ("alone", "ssh.access", "ssm or direct", "direct", ""),
        ("alone", "shared", "another folder", "/work", "chg-test-alone-launched"),
        ("paired", "shared", "left out", GONE, "chg-test-paired-(launched|slurm-shared)"),
    ):
        yield Case(
            f"cloud[].slurm.servers.{field}",
            how,
            {f"cloud[{site}].slurm.servers.{field}": value},
            f" {claims}(-|$)" if claims else "",
            "slurm",
        )


def _orders() -> Iterator[Case]:
    """Orders of both sites; what they draw is in no other case."""
    added = {"name": "more", "nodes": 1, "groups": ["rest"]}
    for site, scheduler in SITES.items():
        at = f"cloud[{site}].ordered_capacity"
        for field, how, place, value, claims in (
            ("", "add an entry", "[more]", added, "more"),
            ("", "remove an entry", "[single]", GONE, "single"),
            (".name", "another name", "[single].name", "lone", "(single|lone)"),
            (".nodes", "more", "[pair].nodes", 4, "pair"),
            (".nodes", "fewer", "[pair].nodes", 2, "pair"),
            (".at_least", "another number", "[pair].at_least", 2, "pair"),
            (".groups", "another list", "[pair].groups", ["second", "first"], "pair"),
        ):
            yield Case(
                f"cloud[].ordered_capacity[]{field}",
                how,
                {f"{at}{place}": value},
                rf" chg-test-{site}-{claims}$",
                scheduler,
            )
