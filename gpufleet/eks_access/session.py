"""A port-forward of Session Manager through a node of a cluster to the cluster's private endpoint."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from msgspec import Struct

from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.eks_access.programs import PLUGIN
from gpufleet.errors import CloudError
from gpufleet.loopback import LOOPBACK

DOCUMENT = "AWS-StartPortForwardingSessionToRemoteHost"
"""AWS's session document for a port of a host behind a managed node (Systems Manager User Guide, "Starting a
session (port forwarding to remote host)")."""

SYSTEM_LABEL = "system"
API_PORT = 443

NODE_WAIT_S = 300.0
"""How long a running node may take until its agent has registered with Systems Manager."""
PORT_WAIT_S = 60.0
"""How long a started session may take until the endpoint answers through it."""

_RESPONSE = "AWS_SSM_START_SESSION_RESPONSE"
"""The environment variable from which the plugin reads the session's token, and which it removes (AWS's
session-manager-plugin, sessionmanagerplugin/session/session.go)."""

_POLL_S = 0.2
_NODE_POLL_S = 2.0
_STOP_GRACE_S = 5.0
_MOST_FILTER_VALUES = 50


class SessionTarget(Struct, frozen=True):
    """A cluster's private endpoint `host`, and the port of this machine that leads to it."""

    cluster: str
    region: str
    host: str
    port: int
    identity: AwsIdentity


@dataclass(slots=True)
class Session:
    """A running session: its id, the node that it goes through, and the plugin's process."""

    id: str
    node: str
    process: subprocess.Popen[bytes]
    aws: Any

    def running(self) -> bool:
        """Return whether the plugin still runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """Stop the plugin, and the session in AWS. A failure is no error: sessions end when they are idle."""
        from botocore.exceptions import BotoCoreError, ClientError

        if self.running():
            self.process.terminate()
            try:
                self.process.wait(_STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        try:
            self.aws.terminate_session(SessionId=self.id)
        except (BotoCoreError, ClientError):
            return


def open_session(
    target: SessionTarget,
    log: IO[bytes],
    *,
    wanted: Callable[[], bool] = lambda: True,
    node_wait_s: float = NODE_WAIT_S,
) -> Session:
    """Start a session and return once the endpoint answers through it.

    Waits for a node whose agent is online. `wanted` says whether anyone still needs it. Raises CloudError if
    there is no such node, AWS refuses the session, or the endpoint does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    session = target.identity.session(target.region)
    try:
        node = _node(session, target, time.monotonic() + node_wait_s, wanted)
        aws = session.client("ssm", region_name=target.region)
        asked = {
            "Target": node,
            "DocumentName": DOCUMENT,
            "Parameters": {
                "host": [target.host],
                "portNumber": [str(API_PORT)],
                "localPortNumber": [str(target.port)],
            },
        }
        answer = aws.start_session(**asked)
    except (BotoCoreError, ClientError) as error:
        raise CloudError(
            f"no session to a node of cluster {target.cluster} can be started: {error}",
            remedy="allow ssm:StartSession on the cluster's nodes and on the document "
            f"{DOCUMENT}, ssm:DescribeInstanceInformation and ec2:DescribeInstances",
        ) from None
    process = _plugin(target, session, aws.meta.endpoint_url, asked, answer, log)
    opened = Session(str(answer["SessionId"]), node, process, aws)
    try:
        _wait_for_port(target, opened, wanted)
    except BaseException:
        opened.end()
        raise
    return opened


def answers(target: SessionTarget, timeout_s: float = 5.0) -> bool:
    """Return whether the endpoint answers through the port: with TLS, not only the plugin's own listener."""
    # Whether it is the right server is judged by those who use it, with the cluster's certificate authority.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((LOOPBACK, target.port), timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=target.host),
        ):
            return True
    except OSError:
        return False


def _plugin(
    target: SessionTarget,
    session: Any,
    endpoint: str,
    asked: Mapping[str, Any],
    answer: Mapping[str, Any],
    log: IO[bytes],
) -> subprocess.Popen[bytes]:
    given = {key: answer[key] for key in ("SessionId", "TokenValue", "StreamUrl")}
    env = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    env[_RESPONSE] = json.dumps(given)
    if target.identity.roles:
        # The plugin resumes a broken session with credentials of its own.
        frozen = session.get_credentials().get_frozen_credentials()
        env |= {
            "AWS_ACCESS_KEY_ID": frozen.access_key,
            "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
            "AWS_SESSION_TOKEN": frozen.token or "",
        }
    profile = "" if target.identity.roles else target.identity.profile or ""
    try:
        return subprocess.Popen(  # noqa: S603 - no shell is involved
            [
                shutil.which(PLUGIN) or PLUGIN,
                *(_RESPONSE, target.region, "StartSession", profile, json.dumps(asked), endpoint),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
        )
    except OSError as error:
        raise CloudError(
            f"{PLUGIN} cannot be started: {error.strerror}", remedy="install AWS's Session Manager plugin"
        ) from None


def _wait_for_port(target: SessionTarget, session: Session, wanted: Callable[[], bool]) -> None:
    until = time.monotonic() + PORT_WAIT_S
    while not answers(target):
        if not session.running():
            raise CloudError(
                f"{PLUGIN} has ended with status {session.process.returncode} before {target.host} answered",
                remedy=f"another process may use port {target.port} of this machine: end it, or set"
                " `kubernetes.access_port` of the site",
            )
        if time.monotonic() > until or not wanted():
            raise CloudError(
                f"{target.host} does not answer through node {session.node} of cluster {target.cluster}",
                remedy="check the security group of the node and the log of its agent (amazon-ssm-agent)",
            )
        time.sleep(_POLL_S)


def _node(session: Any, target: SessionTarget, until: float, wanted: Callable[[], bool]) -> str:
    """Return a running node of the cluster whose agent is online, of the system nodes if one of them is."""
    ec2 = session.client("ec2", region_name=target.region)
    ssm = session.client("ssm", region_name=target.region)
    while True:
        nodes = sorted(_running(ec2, target.cluster), key=lambda node: not node[1])
        if not nodes:
            raise CloudError(
                f"cluster {target.cluster} has no running node to reach its private endpoint through",
                remedy="set `kubernetes.system_nodes.min` to 1 or more, or `kubernetes.access: direct` on a"
                " machine in the site's network",
            )
        online = _online(ssm, [name for name, _ in nodes])
        found = next((name for name, _ in nodes if name in online), None)
        if found is not None:
            return found
        if time.monotonic() > until or not wanted():
            raise CloudError(
                f"none of the {len(nodes)} nodes of cluster {target.cluster} is online in Systems Manager",
                remedy="nodes need the policy AmazonSSMManagedInstanceCore, and a way to Systems Manager:"
                " NAT, or endpoints for ssm, ssmmessages and ec2messages",
            )
        time.sleep(_NODE_POLL_S)


def _running(ec2: Any, cluster: str) -> Iterator[tuple[str, bool]]:
    """Yield the running nodes, and whether each is a system node. EKS tags the nodes of its groups."""
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[
            {"Name": "tag:eks:cluster-name", "Values": [cluster]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
    )
    for page in pages:
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
                group = tags.get("eks:nodegroup-name", "")
                yield str(instance["InstanceId"]), group.startswith(f"{cluster}-{SYSTEM_LABEL}")


def _online(ssm: Any, nodes: list[str]) -> set[str]:
    found = set()
    for start in range(0, len(nodes), _MOST_FILTER_VALUES):
        asked = nodes[start : start + _MOST_FILTER_VALUES]
        pages = ssm.get_paginator("describe_instance_information").paginate(
            Filters=[{"Key": "InstanceIds", "Values": asked}]
        )
        found |= {
            str(each["InstanceId"])
            for page in pages
            for each in page["InstanceInformationList"]
            if each.get("PingStatus") == "Online"
        }
    return found
