"""A private endpoint is reached through a node: in which order, for how long, and messages of failures."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpufleet.components.kubeconfig import TokenCommandArgs, kubeconfig
from gpufleet.eks_access.forward import ensure_forward
from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.eks_access.rendezvous import Rendezvous, is_running, started
from gpufleet.eks_access.session import DOCUMENT, SessionTarget
from gpufleet.errors import CloudError, InputError
from tests.programs import find_program
from tests.unit.eks_access.way_in import CLUSTER, GPU_NODE, HOST, SYSTEM_NODE, TOKEN, WayIn

Users = Callable[[], subprocess.Popen[bytes]]
REGION = "us-east-1"
PATIENCE_S = 300.0


def until(holds: Callable[[], bool]) -> bool:
    """Whether something becomes true; only a broken program lets it wait to the end."""
    end = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
    return holds()


def target(way: WayIn, **changes: object) -> SessionTarget:
    values = {"cluster": CLUSTER, "region": REGION, "host": HOST, "port": way.port, "identity": AwsIdentity()}
    return SessionTarget(**values | changes)  # type: ignore[arg-type]


def kubectl(way: WayIn, *more: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Ask the API server with kubectl, whose library the provider uses too, and a kubeconfig of ours."""
    command = TokenCommandArgs(
        command="gpufleet",
        arguments=[
            *("eks-token", "--cluster-name", "{cluster}", "--region", "{region}"),
            *("--endpoint", HOST, "--port", str(way.port), *more),
        ],
    )
    authority = base64.b64encode((way.folder / "ca.crt").read_bytes()).decode()
    file = way.folder / "kubeconfig"
    file.write_text(kubeconfig(CLUSTER, f"https://{HOST}", authority, REGION, command, port=way.port))
    return subprocess.run(
        [find_program("kubectl"), "--kubeconfig", str(file), "get", "--raw", "/readyz"],
        env={**os.environ, "HOME": str(way.folder), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def shape(events: list[str]) -> list[str]:
    """The events without numbers of processes, and without the version that some kubectl ask for first."""
    plain = [re.sub(r"(?<=plugin starts) \d+", "", event) for event in events]
    return [event for event in plain if not event.startswith("API answers /version")]


def test_endpoint_is_reached_once_a_node_is_online_and_the_way_in_ends_with_its_user(way: WayIn) -> None:
    way.online = [set(), {SYSTEM_NODE, GPU_NODE}]
    assert not way.is_open()
    asked = kubectl(way)
    assert (asked.returncode, asked.stdout) == (0, "ok"), asked.stderr
    assert until(lambda: "session s-1 ends" in way.events)
    assert shape(way.events) == [
        "0 nodes online",
        "2 nodes online",
        f"session through {SYSTEM_NODE} as AKIAEXAMPLE with {DOCUMENT}",
        "plugin starts",
        f"port opens to {HOST}:443",
        "API answers /readyz with a token",
        "session s-1 ends",
    ]
    assert until(lambda: not way.is_open())
    assert until(lambda: not Rendezvous.of(HOST).is_kept())
    assert not any(is_running(pid) for pid in way.plugins())


def test_users_share_one_session_and_the_last_one_ends_it(way: WayIn, user: Users) -> None:
    first, second = user(), user()
    for each in (first, second):
        ensure_forward(target(way), each.pid)
    assert len(way.plugins()) == 1
    first.kill()
    first.wait()
    assert kubectl(way).returncode == 0
    assert len(way.plugins()) == 1
    assert "session s-1 ends" not in way.events
    second.kill()
    second.wait()
    assert until(lambda: "session s-1 ends" in way.events)
    assert until(lambda: not way.is_open())


def test_session_that_breaks_is_replaced_while_it_is_used(way: WayIn, user: Users) -> None:
    process = user()
    ensure_forward(target(way), process.pid)
    os.kill(way.plugins()[0], signal.SIGKILL)
    assert until(lambda: len(way.plugins()) == 2)
    ensure_forward(target(way), process.pid)
    assert kubectl(way).returncode == 0


def test_session_starts_with_the_roles_of_the_stack(way: WayIn) -> None:
    roles = [{"role_arn": f"arn:aws:iam::123456789012:role/{name}"} for name in ("hop", "deploy")]
    asked = kubectl(way, "--assume-roles", json.dumps([roles[0], roles[1] | {"session_name": "fleet"}]))
    assert asked.returncode == 0, asked.stderr
    assert "role arn:aws:iam::123456789012:role/hop as gpufleet" in way.events
    assert "role arn:aws:iam::123456789012:role/deploy as fleet" in way.events
    (session,) = [event for event in way.events if event.startswith("session through")]
    assert "as ASIADEPLOY with" in session
    assert until(lambda: not Rendezvous.of(HOST).is_kept())


def test_other_node_leads_to_the_endpoint_if_no_system_node_is_online(way: WayIn, user: Users) -> None:
    way.online = [{GPU_NODE}]
    ensure_forward(target(way), user().pid)
    assert any(event.startswith(f"session through {GPU_NODE}") for event in way.events)


def test_cluster_without_nodes_is_reported_at_once(way: WayIn) -> None:
    way.nodes = []
    asked = kubectl(way)
    assert asked.returncode != 0
    assert f"cluster {CLUSTER} has no running node" in asked.stderr
    assert "kubernetes.access: direct" in asked.stderr
    assert "Traceback" not in asked.stderr
    assert until(lambda: not Rendezvous.of(HOST).is_kept())
    assert way.plugins() == []


def test_refused_session_names_the_permissions(way: WayIn, user: Users) -> None:
    way.refuse = "AccessDeniedException"
    with pytest.raises(CloudError, match="AccessDenied") as error:
        ensure_forward(target(way), user().pid)
    assert "ssm:StartSession" in error.value.remedy
    assert DOCUMENT in error.value.remedy


def test_plugin_that_ends_at_once_is_reported(way: WayIn, user: Users) -> None:
    way.install_plugin(broken=True)
    with pytest.raises(CloudError, match="session-manager-plugin has ended with status 1") as error:
        ensure_forward(target(way), user().pid)
    assert "kubernetes.access_port" in error.value.remedy
    assert way.events.count("session s-1 ends") == len(way.plugins()) == 3


def test_port_of_another_process_is_refused_and_not_used(way: WayIn, user: Users) -> None:
    process = user()
    with (
        socket.create_server(("127.0.0.1", way.port)),
        pytest.raises(InputError, match=f"port {way.port} of this machine") as error,
    ):
        ensure_forward(target(way), process.pid)
    assert "kubernetes.access_port" in error.value.remedy
    assert way.events == []


@pytest.mark.parametrize("version", ["1.2.497.0", "1.1.61.0", "no version"])
def test_plugin_that_takes_its_token_as_an_argument_is_refused(way: WayIn, user: Users, version: str) -> None:
    way.install_plugin(version=version)
    with pytest.raises(InputError, match=re.escape(version)):
        ensure_forward(target(way), user().pid)
    assert way.events == []


def test_missing_plugin_is_refused(way: WayIn, user: Users) -> None:
    (way.bin / "session-manager-plugin").unlink()
    with pytest.raises(InputError, match="session-manager-plugin, which is not on PATH") as error:
        ensure_forward(target(way), user().pid)
    assert "phased" in error.value.remedy


def test_token_of_a_session_is_neither_in_a_file_nor_in_an_argument(way: WayIn, user: Users) -> None:
    process = user()
    ensure_forward(target(way), process.pid)
    arguments = Path(f"/proc/{way.plugins()[0]}/cmdline").read_bytes()
    assert b"AWS_SSM_START_SESSION_RESPONSE" in arguments
    assert TOKEN.encode() not in arguments
    place = Rendezvous.of(HOST)
    assert place.folder.stat().st_mode & 0o077 == 0
    files = [file for file in place.folder.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if TOKEN.encode() in file.read_bytes()]


def test_later_process_with_the_number_of_an_ended_user_does_not_count(way: WayIn, user: Users) -> None:
    place, process = Rendezvous.of(HOST), user()
    place.register(process.pid)
    assert place.users() == [process.pid]
    assert started(process.pid)
    (place.folder / "users" / str(process.pid)).write_text("1")
    assert place.users() == []
