"""Every documented change of a field that concerns the cloud, as a change to the fleet of `changes_fleet`.

A case selects its effects by a regular expression on `type name` of resources. Cases with disjoint
places are previewed together; a step that no case claims fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tests.e2e.changes_case import PLUGINS, SITES, Case, claims
from tests.e2e.changes_fleet import GONE, KEYS, MINE, OTHER
from tests.e2e.changes_racks import RACKS_AFTER
from tests.e2e.changes_site_cases import site_cases

GROUP = "cloud[].node_groups[]"
STORE = "cloud[].storage[]"


def _group(
    name: str, path: str, how: str, value: Any, *, also: str = "", silent: bool = False, at: str = ""
) -> Iterator[Case]:
    """The same change of a node group in the Kubernetes site and in the Slurm site.

    A `silent` case claims no steps: there must be none.
    """
    for site, scheduler in SITES.items():
        zoned = _zoned(value, site)
        own = rf" chg-test-{site}-{name}(-fallback|-start|-stop|-extension-\d|-[0-9]{{12}})?$"
        yield Case(
            f"{GROUP}.{path}" if path else GROUP,
            how,
            {f"cloud[{site}].node_groups[{name}]{'.' + (at or path) if (at or path) else ''}": zoned},
            "" if silent else own + (f"|{also}" if also and site == "kube" else ""),
            scheduler,
        )


def _zoned(value: Any, site: str) -> Any:
    """The value with NEAR and FAR replaced by zones of the site."""
    if isinstance(value, str):
        region = "us-east-1" if site == "kube" else "us-west-2"
        return {"NEAR": f"{region}a", "FAR": f"{region}b"}.get(value, value)
    if isinstance(value, list):
        return [_zoned(each, site) for each in value]
    if isinstance(value, dict):
        return {key: _zoned(each, site) for key, each in value.items()}
    return value


NEW_GROUP = {
    "name": "added",
    "instance_types": ["g6e.2xlarge"],
    "capacity": {"on_demand": {"min": 0, "max": 1}},
    "zones": ["NEAR"],
}
SCALED = {"on_demand": {"min": 0, "max": 3, "desired": 1}}
SPOT = {"spot": {"min": 0, "max": 3, "desired": 1, "on_shortage": ["wait"]}}
ODCR = "capacity.reserved.odcr"
BLOCK = "capacity.reserved.capacity_block"
SPOT_PRICE = "capacity.spot.max_price"
NVME_MOUNT = "local_nvme.mount"
SLURM_ONLY = frozenset({f"{GROUP}.{SPOT_PRICE}", f"{GROUP}.{NVME_MOUNT}"})
"""Fields of node groups that a Kubernetes site does not take."""
KUBERNETES_ONLY = frozenset(
    f"{GROUP}.{path}"
    for path in (
        "gpu_sharing.time_slicing",
        "gpu_sharing.time_slicing.replicas",
        "gpu_sharing.mps",
        "gpu_sharing.mps.replicas",
        "mig_profile",
    )
)
"""Fields of node groups that a Slurm site does not take."""


def node_group_cases() -> Iterator[Case]:
    """Node groups, in both schedulers' sites."""
    yield from _group("added", "", "add an entry", NEW_GROUP)
    yield from _group("three", "", "remove an entry", GONE)
    for site, scheduler in SITES.items():
        yield Case(
            f"{GROUP}.name",
            "another name",
            {f"cloud[{site}].node_groups[three].name": "other"},
            rf" chg-test-{site}-(three|other)$",
            scheduler,
        )
        yield Case(
            f"{GROUP}.name",
            "another name, with a reservation of its own",
            {f"cloud[{site}].node_groups[kept].name": "moved"},
            rf" chg-test-{site}-(kept|moved)$",
            scheduler,
        )
    yield from _group("one", "instance_types", "another type", ["g6e.4xlarge"])
    yield from _group("two", "instance_types", "a further type", ["g6e.2xlarge", "g6e.4xlarge"])
    yield from _group("one", "capacity.on_demand", "another kind instead", SPOT, at="capacity")
    yield from _group("cheap", "capacity.spot", "another kind instead", SCALED, at="capacity")
    yield from _group("kept", "capacity.reserved", "another kind instead", SCALED, at="capacity")
    odcr = {"reserved": {"odcr": {"nodes": 1}}}
    block = {"reserved": {"capacity_block": {"nodes": 2, "duration": "1 d", "start": "in 14 d"}}}
    yield from _group("block", BLOCK, "an On-Demand Capacity Reservation instead", odcr, at="capacity")
    yield from _group("kept", ODCR, "a Capacity Block instead", block, at="capacity")
    for how, extensions in (
        ("add an entry", ["1 d", "2 d", "3 d"]),
        ("remove the last entry", ["1 d"]),
        ("another length", ["1 d", "4 d"]),
    ):
        yield from _group("block", f"{BLOCK}.extensions", how, extensions)
    yield from _group("block", f"{BLOCK}.remind_before", "another time", "1 d", silent=True)
    others = ["222233334444", "222233335555", "222233336666"]
    yield from _group("shared", f"{ODCR}.share_with", "add an entry", others)
    yield from _group("shared", f"{ODCR}.share_with", "remove an entry", others[:1])
    yield from _group("shared", f"{ODCR}.shared_nodes", "another number", 3)
    yield from _group("shared", f"{ODCR}.share_outside_organization", "on or off", True)
    for kind, least, most, start in (
        ("on_demand", "two", "three", "four"),
        ("spot", "cheap", "idle", "idle"),
    ):
        yield from _group(least, f"capacity.{kind}.min", "another number", 1)
        yield from _group(most, f"capacity.{kind}.max", "another number", 5)
        yield from _group(start, f"capacity.{kind}.desired", "another number", 2, silent=True)
    yield from _group("cheap", "capacity.spot.on_shortage", "on-demand added", ["on-demand", "wait"])
    yield from _group("idle", "capacity.spot.on_shortage", "anything else", ["other-zone", "wait"])
    # EKS has no maximum price, and a check refuses one.
    yield from (
        case
        for case in _group("cheap", SPOT_PRICE, "another price", "1.5 USD/h")
        if case.scheduler == "slurm"
    )
    yield from _group("kept", f"{ODCR}.nodes", "more", 3)
    yield from _group("kept", f"{ODCR}.nodes", "fewer", 1)
    yield from _group("kept", f"{ODCR}.zone", "another zone", "FAR")
    yield from _group("lent", f"{ODCR}.instances", "another number", 3, silent=True)
    yield from _group("block", f"{BLOCK}.nodes", "another number", 2)
    yield from _group("block", f"{BLOCK}.duration", "another length", "2 d")
    yield from _group("block", f"{BLOCK}.start", "another day", "in 16 d")
    for bound in ("min", "max"):
        yield from _group("block", f"{BLOCK}.{bound}", "written or left out", 1)
    yield from _group("bought", f"{BLOCK}.instances", "another number", 2, silent=True)
    yield from _group("slow", "network", "efa on or off", "efa")
    yield from _group("slow", "placement", "a placement group more or less", "cluster")
    yield from _group("one", "workload", "another one", "interactive")
    yield from _group("four", "zones", "another zone", ["NEAR", "FAR"])
    yield from _group("marked", "team", "another team", "blue")
    yield from _group("marked", "labels.<name>", "another value", "high", at="labels.tier")
    yield from _group(
        "one",
        "taints[]",
        "add or remove an entry",
        [{"key": "day", "value": "yes", "effect": "NoSchedule"}],
        also=PLUGINS,
        at="taints",
    )
    yield from _group("tainted", "taints[].key", "another key", "noon", also=PLUGINS, at="taints[0].key")
    yield from _group("tainted", "taints[].value", "another value", "no", at="taints[0].value")
    yield from _group("tainted", "taints[].effect", "another effect", "NoExecute", at="taints[0].effect")
    yield from _group("four", "volume.size", "another size", "300 GiB")
    yield from _group("two", "volume.iops", "another number", 4000)
    yield from _group("two", "volume.throughput", "another number", 250)
    yield from _group("four", "public_ip", "on or off", True)
    yield from _group("two", "local_nvme.use", "used or not", "none")
    # EKS mounts the drives itself, and a check refuses another folder.
    yield from (
        case for case in _group("three", NVME_MOUNT, "another folder", "/fast") if case.scheduler == "slurm"
    )
    shares = r":(ConfigMap|DaemonSet|Release) chg-test-kube-base|chg-test-kube-base-.*-gpu-shares"
    for name, path, how, value in (
        ("one", "gpu_sharing.time_slicing", "on or off", {"replicas": 4}),
        ("sliced", "gpu_sharing.time_slicing.replicas", "another number", 8),
        ("two", "gpu_sharing.mps", "on or off", {"replicas": 2}),
        ("served", "gpu_sharing.mps.replicas", "another number", 4),
        ("kept", "mig_profile", "another one, or none", "1g.10gb"),
    ):
        cases = _group(name, path, how, value, also=shares)
        yield from (case for case in cases if case.scheduler == "kubernetes")
    yield from _group("three", "image", "your own instead of AWS's, or back", MINE)
    yield from _group("mine", "image", "another of your own", OTHER)
    yield from _group("three", "user_data", "another text", ["#!/bin/sh\ntrue\n"])


def _reserved(path: str, how: str, changes: Mapping[str, Any], *, scheduler: str, claims: str) -> Case:
    return Case(f"{GROUP}.{path}", how, changes, claims, scheduler)


def existing_reservation_cases(held: Mapping[str, Mapping[str, str]]) -> Iterator[Case]:
    """Groups in reservations that the stack does not own, moved to another one."""
    for site, scheduler in SITES.items():
        known = held[site]
        other = {
            "nodes": 1,
            "id": known["other_odcr"],
            "instance_type": "g6e.2xlarge",
            "zone": _zoned("FAR", site),
            "instances": 2,
        }
        near = {**other, "id": known["same_zone_odcr"], "zone": _zoned("NEAR", site)}
        given, lent = (f"cloud[{site}].node_groups[{name}]" for name in ("given", "lent"))
        at = partial(_reserved, scheduler=scheduler, claims=rf" chg-test-{site}-given$")

        yield at(f"{ODCR}.id", "another reservation", {f"{given}.{ODCR}": near})
        yield at(
            f"{ODCR}.zone",
            "another zone, of another reservation",
            {f"{given}.{ODCR}": other, f"{given}.zones": GONE},
        )
        yield at(
            f"{ODCR}.instance_type",
            "another type, of another reservation",
            {
                f"{given}.{ODCR}": {**near, "id": known["other_type_odcr"], "instance_type": "g6e.4xlarge"},
                f"{given}.instance_types": ["g6e.4xlarge"],
            },
        )
        yield at(
            f"{ODCR}.placement_group",
            "another group",
            {
                f"{lent}.{ODCR}.id": known["grouped_odcr"],
                f"{lent}.{ODCR}.placement_group": "own-group",
            },
            claims=rf" chg-test-{site}-lent$",
        )
        yield at(
            f"{ODCR}.group",
            "another group",
            {f"cloud[{site}].node_groups[pooled].{ODCR}.group": known["other_pool"]},
            claims=rf" chg-test-{site}-pooled$",
        )
        block = f"cloud[{site}].node_groups[bought]"
        yield Case(
            f"{GROUP}.{BLOCK}.id",
            "another block",
            {f"{block}.{BLOCK}.id": known["same_zone_block"]},
            rf" chg-test-{site}-bought(-start|-stop)?$",
            scheduler,
        )
        yield Case(
            f"{GROUP}.{BLOCK}.zone",
            "another zone, of another block",
            {f"{block}.{BLOCK}.id": known["other_block"], f"{block}.{BLOCK}.zone": _zoned("FAR", site)},
            rf" chg-test-{site}-bought(-start|-stop)?$",
            scheduler,
        )
        yield Case(
            f"{GROUP}.{BLOCK}.instance_type",
            "another type, of another block",
            {
                f"{block}.{BLOCK}.id": known["other_type_block"],
                f"{block}.{BLOCK}.instance_type": "p5en.48xlarge",
                f"{block}.instance_types": ["p5en.48xlarge"],
            },
            rf" chg-test-{site}-bought(-start|-stop)?$",
            scheduler,
        )


def _store(name: str, path: str, how: str, value: Any, *, also: str = "", at: str = "") -> Case:
    inner = at or path
    return Case(
        f"{STORE}.{path}" if path else STORE,
        how,
        {f"cloud[kube].storage[{name}]{'.' + inner if inner else ''}": value},
        rf" chg-test-kube-{name}(-|$)" + (f"|{also}" if also else ""),
    )


BUCKET_RIGHTS = r"aws:iam/rolePolicy:RolePolicy chg-test-kube-(node-buckets|red-data)$"


def storage_cases() -> Iterator[Case]:
    """File systems and buckets."""
    scratch = {"name": "new", "lustre": {"deployment": "scratch-2", "capacity": "1200 GiB"}}
    yield _store("new", "", "add an entry", scratch)
    yield _store("spare", "", "remove an entry", GONE, also=BUCKET_RIGHTS)
    yield _store("fs", "name", "another name", "renamed", also=" chg-test-kube-renamed(-|$)")
    yield Case(
        f"{STORE}.lustre",
        "another kind instead",
        {"cloud[kube].storage[fs]": {"name": "fs", "bucket": {"name": "chg-test-fs"}}},
        f" chg-test-kube-fs(-|$)|{BUCKET_RIGHTS}",
    )
    yield _store("fs", "lustre.capacity", "more", "4800 GiB")
    yield _store("big", "lustre.capacity", "less", "1200 GiB")
    yield Case(
        f"{STORE}.lustre.deployment",
        "another type",
        {
            "cloud[kube].storage[big].lustre": {
                "deployment": "scratch-2",
                "capacity": "2400 GiB",
                "zone": "us-east-1a",
            }
        },
        " chg-test-kube-big(-|$)",
    )
    yield _store("big", "lustre.throughput", "another tier", "250 MB/s/TiB")
    yield _store("older", "lustre.throughput", "another tier", "100 MB/s/TiB")
    yield _store("swift", "lustre.throughput", "another tier with EFA", "250 MB/s/TiB")
    yield Case(
        f"{STORE}.lustre.efa",
        "on or off",
        {
            "cloud[kube].storage[safe].lustre.efa": True,
            "cloud[kube].storage[safe].lustre.capacity": "38400 GiB",
            "cloud[kube].storage[safe].lustre.metadata_iops": 6000,
        },
        " chg-test-kube-safe(-|$)",
    )
    yield _store("safe", "lustre.metadata_iops", "more", 6000)
    yield _store("big", "lustre.metadata_iops", "fewer", 1500)
    yield _store("linked", "lustre.import_from", "another prefix or bucket", "s3://chg-test-data/b")
    yield _store("linked", "lustre.import_from", "left out", GONE)
    yield _store("linked", "lustre.export", "on or off", True)
    yield _store("safe", "lustre.compression", "another one", "none")
    yield _store("fs", "lustre.backups", "another length", "14 d")
    yield _store("linked", "lustre.zone", "another zone", "us-east-1b")
    yield Case(
        f"{STORE}.bucket",
        "another kind instead",
        {"cloud[kube].storage[spare]": {"name": "spare", "lustre": scratch["lustre"]}},
        f" chg-test-kube-spare(-|$)|{BUCKET_RIGHTS}",
    )
    yield _store("spare", "bucket.name", "another name", "chg-test-other", also=BUCKET_RIGHTS)
    yield _store("cold", "bucket.versioning", "off", False)
    yield _store("cold", "bucket.expire_after", "another age", "60 d")
    theirs, other = (f"{KEYS}{last:012}" for last in (1, 2))
    yield _store("cold", "bucket.kms_key", "another key", other, also=BUCKET_RIGHTS)
    yield _store(
        "spare", "bucket.kms_key", "a key of yours instead of the stack's", theirs, also=BUCKET_RIGHTS
    )
    yield _store("fs", "lustre.kms_key", "another key", theirs)
    yield Case(f"{STORE}.mount", "another folder", {"cloud[kube].storage[older].mount": "/fsx/older"})


MONEY = (
    "(aws:budgets/budget:Budget chg-test-budget"
    "|aws:sns/topicSubscription:TopicSubscription chg-test-budget-email-)"
)
ANOMALIES = "|aws:costexplorer/.* chg-test-budget-anomalies$"
MONITOR = "arn:aws:ce::123456789012:anomalymonitor/1234abcd-12ab-34cd-56ef-1234567890ab"


def fleet_cases() -> Iterator[Case]:
    """Fields of the whole fleet."""
    yield Case("budget.monthly", "another amount", {"budget.monthly": "2900000 USD"}, MONEY)
    yield Case("budget.alerts", "another list", {"budget.alerts": ["60%"]}, MONEY)
    yield Case("budget.notify", "another list", {"budget.notify": ["b@example.com"]}, MONEY + ANOMALIES)
    # Its function uses the key of the alerts and the alert at 100%; controllers of Slurm read its record.
    yield Case(
        "budget.on_breach",
        "another value",
        {"budget.on_breach": "stop-scale-out"},
        r" chg-test-budget-stop$|aws:kms/key:Key chg-test-budget$"
        r"|:RolePolicy chg-test-(burst|alone|paired)-launcher$|:Policy chg-test-pooled-.*-stop$",
    )
    # With the action that it belongs to, which tags all spot groups.
    draining = {"budget.on_breach": "drain-spot", "budget.drain_spot_at": "130%"}
    yield Case("budget.drain_spot_at", "another share", draining, exclusive=True)
    yield Case(
        "budget.anomalies.above", "another amount", {"budget.anomalies.above": "900 USD"}, ANOMALIES[1:]
    )
    yield Case(
        "budget.anomalies.monitor", "another one", {"budget.anomalies.monitor": MONITOR}, ANOMALIES[1:]
    )
    for path, name in (("budget.sites.kube", "site-kube"), ("budget.teams.red", "team-red")):
        yield Case(
            f"{path.rpartition('.')[0]}.<name>",
            "another value",
            {path: "550001 USD"},
            f"aws:budgets/budget:Budget chg-test-budget-{name}$",
        )
    unseen = {
        "budget.upfront": "400000 USD",
        "budget.max_increase": "50000 USD",
        "budget.ends": "2099-01-01",
        "budget.node_groups.kube/one": "650000 USD",
        "policies.scale-to-zero": {"enforcement": "advisory", "settings": {"workloads": ["batch"]}},
        "required_tags": ["team"],
    }
    named = {
        "budget.node_groups.kube/one": "budget.node_groups.<name>",
        "policies.scale-to-zero": "policies.<name>",
    }
    for path, value in unseen.items():
        yield Case(named.get(path, path), "another value", {path: value})
    for inner in ("enforcement", "settings.<name>"):
        yield Case(
            f"policies.<name>.{inner}",
            "another value",
            {"policies.scale-to-zero": unseen["policies.scale-to-zero"]},
        )
    exemption = {
        "rule": "scale-to-zero",
        "resource": "chg-test-kube-one",
        "reason": "a service",
        "approver": "lead@example.com",
        "expires": "2099-01-01",
    }
    yield Case("exemptions[]", "add an entry", {"exemptions": [exemption]})
    for inner in exemption:
        yield Case(f"exemptions[].{inner}", "another value", {"exemptions": [exemption]})
    yield Case("tags.<name>", "another value", {"tags.project": "titan"}, exclusive=True)
    yield Case("expires", "another day", {"expires": "2099-01-01"}, exclusive=True)
    for kind, release, scheduler in (
        ("eks", "20260625", "kubernetes"),
        ("slurm", "20260929", "slurm"),
    ):
        field = f"software.node_images.{kind}"
        yield Case(field, "another release", {field: release}, scheduler=scheduler, exclusive=True)
    yield Case("fleet", "another name", {"fleet": "other"}, exclusive=True)
    yield Case("environment", "another name", {"environment": "second"}, exclusive=True, environment="second")


def rack_cases() -> Iterator[Case]:
    """Every field of rack sites at once: none changes the cloud."""
    yield Case(
        "onprem[]", "every field", {f"onprem[{site['site']}]": site for site in RACKS_AFTER}, exclusive=True
    )


def all_cases(held: Mapping[str, Mapping[str, str]]) -> list[Case]:
    """Every case; those with the most changes first, so that others fill their rounds."""
    cases = [
        *site_cases(),
        *node_group_cases(),
        *existing_reservation_cases(held),
        *storage_cases(),
        *fleet_cases(),
    ]
    return sorted(cases, key=lambda case: not case.exclusive)


def rounds(cases: Sequence[Case], resources: Sequence[str]) -> list[list[Case]]:
    """The cases in as few previews as possible: they share no resource (`type name`) of the
    state, and none writes where another does.
    """
    claimed = {id(case): frozenset(each for each in resources if claims(case, each)) for case in cases}

    def meet(one: Case, other: Case) -> bool:
        if one.exclusive or other.exclusive or claimed[id(one)] & claimed[id(other)]:
            return True
        return any(
            (a == b and one.changes[a] != other.changes[b]) or a.startswith(f"{b}.") or b.startswith(f"{a}.")
            for a in one.changes
            for b in other.changes
        )

    packed: list[list[Case]] = []
    for case in cases:
        home = next((each for each in packed if not any(meet(case, other) for other in each)), None)
        if home is None:
            packed.append([case])
        else:
            home.append(case)
    return packed
