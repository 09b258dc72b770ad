"""The nodes that a scheduler outside of AWS launches from a launch template: a dynamic resource.

It creates nothing. It says how many nodes there may be, which no resource of AWS does, and at its end it
terminates those that still run: the launch template and the networks below them could not be deleted. The
module imports nothing that imports pulumi_aws.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from gpufleet.components.dynamic import changed, client

SAID = ("launch_template_id", "instance_types", "spot", "most", "max_price", "tags", "region")
"""The inputs that say which nodes may be launched."""

POLL_S = 5.0
WAIT_S = 900.0
"""How long instances may take to terminate; those with several network cards take minutes."""

_ENDING = ("shutting-down", "terminated")


class LaunchedNodesProvider(ResourceProvider):
    """Terminates nodes on delete. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Create nothing: the scheduler launches nodes when jobs need them."""
        return CreateResult(str(props["launch_template_id"]), _outputs(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compare what may be launched; nodes of another launch template are others."""
        different = changed(_olds, _news, SAID)
        replaces = [each for each in different if each in ("launch_template_id", "tags", "region")]
        return DiffResult(changes=bool(different), replaces=replaces, stables=[], delete_before_replace=False)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the state: nodes come and go."""
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Change nothing in AWS."""
        return UpdateResult(_outputs(_news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Terminate what still runs, and wait until it is gone."""
        terminate_nodes(_props)


class LaunchedNodes(Resource, module="node_group", name="LaunchedNodes"):
    """Up to `most` nodes that are launched from `launch_template_id`, found by all of `tags`.

    `spot` says whether all of them are spot instances, `max_price` what an hour of one may cost in USD.
    `client` are options of the boto3 client, as for `CapacityBlock`.
    """

    def __init__(
        self,
        name: str,
        *,
        launch_template_id: pulumi.Input[str],
        instance_types: Sequence[str],
        spot: bool,
        most: int,
        max_price: str | None,
        tags: Mapping[str, str],
        region: pulumi.Input[str],
        client: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "launch_template_id": launch_template_id,
            "instance_types": list(instance_types),
            "spot": spot,
            "most": most,
            "max_price": max_price,
            "tags": dict(tags),
            "region": region,
            "client": dict(client),
        }
        super().__init__(LaunchedNodesProvider(), name, props, opts)


def terminate_nodes(props: Mapping[str, Any]) -> None:
    """Terminate the instances with the tags of a resource. Raises if they do not end in time."""
    ec2 = client(props, "ec2")
    deadline = time.monotonic() + WAIT_S
    while running := _running(ec2, props["tags"]):
        left = [each for each, state in running.items() if state not in _ENDING]
        if left:
            ec2.terminate_instances(InstanceIds=left)
        if time.monotonic() > deadline:
            raise Exception(
                f"{len(running)} instances that Slurm launched ({', '.join(sorted(running)[:3])}) did not"
                f" terminate within {WAIT_S / 60:.0f} min: run the command again"
            )
        time.sleep(POLL_S if left else 1.0)


def _running(ec2: Any, tags: Mapping[str, str]) -> dict[str, str]:
    """Return the states of instances that are not terminated, by id."""
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    found = {
        each["InstanceId"]: str(each["State"]["Name"])
        for page in ec2.get_paginator("describe_instances").paginate(Filters=filters)
        for reservation in page["Reservations"]
        for each in reservation["Instances"]
    }
    return {each: state for each, state in found.items() if state != "terminated"}


def _outputs(props: Mapping[str, Any]) -> dict[str, Any]:
    return {key: props.get(key) for key in (*SAID, "client")}
