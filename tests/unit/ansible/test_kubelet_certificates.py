"""Approval of kubelets' serving certificates, with requests that a real API server has accepted."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests.kube.build import MINOR, program
from tests.kube.certificates import Authority
from tests.kube.cluster import ApiServerProcess
from tests.loading import load_source
from tests.unit.ansible.collection.conftest import load

PROGRAM = Path("ansible/roles/kubernetes_control_plane/files/kubelet-certificates")
HOSTS = [{"name": "dgx01", "address": "10.90.0.21"}, {"name": "named", "address": "localhost"}]
SERVER = ["digital signature", "server auth"]
daemon = [pytest.mark.xdist_group("kube"), pytest.mark.daemon]


def names(*found: str) -> list[x509.GeneralName]:
    """Alternative names: addresses, DNS names, and others as `kind:value`."""
    made: list[x509.GeneralName] = []
    for name in found:
        if name.startswith("uri:"):
            made.append(x509.UniformResourceIdentifier(name[4:]))
        elif name.startswith("email:"):
            made.append(x509.RFC822Name(name[6:]))
        else:
            try:
                made.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                made.append(x509.DNSName(name))
    return made


def pem(*alternatives: str, common: str = "system:node:dgx01", group: str = "system:nodes") -> bytes:
    """A request as a kubelet makes it."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)]
    subject += [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if alternatives:
        extension = x509.SubjectAlternativeName(names(*alternatives))
        builder = builder.add_extension(extension, critical=False)
    key = ec.generate_private_key(ec.SECP256R1())
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def request(name: str, text: bytes, usages: list[str] | None = None, signer: str = "kubelet-serving") -> Any:
    spec = {
        "request": base64.b64encode(text).decode(),
        "signerName": f"kubernetes.io/{signer}",
        "usages": usages or SERVER,
    }
    made = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return made | {"metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_source(PROGRAM, "kubelet_certificates_program")


OTHERS = {
    "other-host": (pem("dgx02", "10.90.0.22", common="system:node:dgx02"), SERVER, "not a host of this"),
    "other-address": (pem("dgx01", "10.90.0.10"), SERVER, "asks for the address 10.90.0.10, and the inv"),
    "other-name": (pem("dgx01", "ctl01", "10.90.0.21"), SERVER, "asks for 'ctl01', which is not"),
    "wildcard": (pem("*", "10.90.0.21"), SERVER, "asks for '*', which is not"),
    "email": (pem("10.90.0.21", "email:root@dgx01"), SERVER, "asks for 'root@dgx01', which is not"),
    "uri": (pem("10.90.0.21", "uri:spiffe://x/y"), SERVER, "asks for 'spiffe://x/y', which is not"),
    "no-address": (pem("dgx01"), SERVER, "asks for no address"),
    "no-names": (pem(), SERVER, "asks for no address"),
    "client": (pem("10.90.0.21"), ["digital signature", "client auth"], "usages digital signature, cli"),
    "group": (pem("10.90.0.21", group="system:masters"), SERVER, "subject system:masters, system:node:"),
    "subject": (pem("10.90.0.21", common="system:node:named"), SERVER, "asks for the subject"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_request_for_anything_but_the_hosts_own_name_and_address_is_refused(
    tool: ModuleType, case: str
) -> None:
    text, usages, says = OTHERS[case]
    made = request(case, text, usages)
    user = "system:node:dgx02" if case == "other-host" else "system:node:dgx01"
    made["spec"] |= {"username": user, "groups": ["system:nodes"]}
    hosts = {item["name"]: item["address"] for item in HOSTS}
    assert says in tool.problem_of(made, hosts)


def test_request_of_anyone_but_a_kubelet_is_refused(tool: ModuleType) -> None:
    for user, groups in (("admin", ["system:nodes"]), ("system:node:dgx01", ["system:authenticated"])):
        made = request("x", pem("10.90.0.21"))
        made["spec"] |= {"username": user, "groups": groups}
        assert "is not a kubelet" in tool.problem_of(made, {"dgx01": "10.90.0.21"})


@pytest.mark.parametrize(
    "text",
    [b"", b"-----BEGIN CERTIFICATE REQUEST-----\nMIIB\n-----END X-----", pem()[:200]],
    ids=["empty", "foreign", "cut"],
)
def test_damaged_request_is_refused(tool: ModuleType, text: bytes) -> None:
    made = request("x", text)
    made["spec"] |= {"username": "system:node:dgx01", "groups": ["system:nodes"]}
    assert "cannot be read" in tool.problem_of(made, {"dgx01": "10.90.0.21"})


def test_names_in_a_request_with_an_rsa_key_and_long_lengths_are_read(tool: ModuleType) -> None:
    many = tuple(f"10.1.{high}.{low}" for high in range(4) for low in range(100))
    key = rsa.generate_private_key(65537, 2048)
    extension = x509.SubjectAlternativeName(names("dgx01", *many))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 60)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    builder = builder.add_attribute(x509.ObjectIdentifier("1.2.840.113549.1.9.7"), b"challenge")
    builder = builder.add_extension(x509.KeyUsage(*[True, *[False] * 8]), critical=True)
    made = builder.add_extension(extension, critical=True).sign(key, hashes.SHA384())
    subject, found = tool.asked(made.public_bytes(serialization.Encoding.PEM).decode())
    assert subject == [(tool.COMMON_NAME, "x" * 60)]
    assert found[0] == (tool.DNS, b"dgx01")
    assert [str(ipaddress.ip_address(value)) for _, value in found[1:]] == list(many)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    made = ApiServerProcess(tmp_path_factory.mktemp("certificates"))
    made.start()
    yield made
    made.stop()


class Member:
    """A member of the control plane: the program, its files, and kubectl."""

    def __init__(self, server: ApiServerProcess, folder: Path) -> None:
        self.server, self.folder = server, folder
        (folder / "kubectl").symlink_to(program("kubectl", MINOR))
        (folder / "kubelets.json").write_text(json.dumps(HOSTS))
        self.environment = {
            "PATH": f"{folder}:/usr/bin:/bin",
            "KUBECONFIG": str(server.kubeconfig),
            "HOME": str(folder),
        }

    def ask(self, made: Any, user: str = "system:node:dgx01") -> None:
        """Create a request as a kubelet does."""
        words = ["kubectl", "create", "-f", "-", f"--as={user}", "--as-group=system:nodes"]
        done = subprocess.run(
            [*words, "--as-group=system:authenticated"],
            input=json.dumps(made),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, PROGRAM, *words, "--hosts", self.folder / "kubelets.json"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def conditions(self, name: str) -> list[str]:
        path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"
        return [item["type"] for item in self.server.rest().call("GET", path)["status"].get("conditions", [])]


@pytest.fixture
def member(server: ApiServerProcess, tmp_path: Path) -> Iterator[Member]:
    yield Member(server, tmp_path)
    server.rest().call("DELETE", "/apis/certificates.k8s.io/v1/certificatesigningrequests")


@pytest.mark.xdist_group("kube")
@pytest.mark.daemon
def test_api_server_gets_the_approval_of_requests_that_match_the_inventory(member: Member) -> None:
    member.ask(request("good", pem("dgx01", "10.90.0.21")))
    member.ask(request("stolen", pem("dgx01", "10.90.0.10")))
    member.ask(
        request("client", pem(), ["digital signature", "client auth"], "kube-apiserver-client-kubelet")
    )
    named = pem("named", "127.0.0.1", common="system:node:named")
    member.ask(request("resolved", named), "system:node:named")
    shown = member.run("approve", "--dry-run")
    assert json.loads(shown.stdout)["approved"] == ["dgx01", "named"] and member.conditions("good") == []
    done = member.run("approve")
    assert done.returncode == 1
    assert "stolen is not approved: dgx01 asks for the address 10.90.0.10" in done.stderr
    assert json.loads(done.stdout)["approved"] == ["dgx01", "named"]
    assert member.conditions("good") == member.conditions("resolved") == ["Approved"]
    assert member.conditions("stolen") == member.conditions("client") == []
    assert json.loads(member.run("approve").stdout)["approved"] == []


@pytest.mark.xdist_group("kube")
@pytest.mark.daemon
def test_request_that_another_member_approves_meanwhile_is_no_failure(member: Member) -> None:
    member.ask(request("good", pem("dgx01", "10.90.0.21")))
    kubectl = member.folder / "kubectl"
    real = kubectl.resolve()
    kubectl.unlink()
    kubectl.write_text(
        f'#!/bin/sh\n[ "$1" != replace ] || {real} certificate approve good >&2\nexec {real} "$@"\n'
    )
    kubectl.chmod(0o755)
    done = member.run("approve")
    assert (done.returncode, json.loads(done.stdout)["approved"]) == (0, []), done.stderr
    assert member.conditions("good") == ["Approved"]


@pytest.mark.xdist_group("kube")
@pytest.mark.daemon
def test_module_reports_changes_only_for_new_approvals(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("kubelet_certificates")
    wrapper = member.folder / "program"
    wrapper.write_text(
        f'#!/bin/sh\nexec {sys.executable} {PROGRAM.resolve()} "$@" --hosts {member.folder}/kubelets.json\n'
    )
    wrapper.chmod(0o755)
    for name, value in member.environment.items():
        monkeypatch.setenv(name, value)
    params = {"wait_s": 0, "program": str(wrapper)}
    member.ask(request("good", pem("dgx01", "10.90.0.21")))
    member.ask(request("stolen", pem("dgx01", "10.90.0.10")))
    admin = os.environ["KUBECONFIG"]
    assert module.work(params, True, admin)["changed"] and member.conditions("good") == []
    answer = module.work(params, False, admin)
    assert answer["approved"] == ["dgx01"]
    assert [text for text in answer["warnings"] if "stolen is not approved" in text]
    assert not module.work(params, False, admin)["changed"]
    assert not module.work(params, True, str(member.folder / "none"))["changed"]


@contextlib.contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[int]:
    """A kubelet's port: with a certificate, or with a handshake that fails as it does without one."""
    with socket.create_server(("127.0.0.1", 0)) as port:

        def serve() -> None:
            with contextlib.suppress(OSError):
                plain, _ = port.accept()
                with plain:
                    if context is not None:
                        context.wrap_socket(plain, server_side=True).close()
                    else:
                        plain.sendall(bytes.fromhex("15030300020250"))  # alert: internal_error

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(port.getsockname()[1])
        thread.join(10)


def test_served_certificate_is_verified_with_the_authority_of_the_cluster(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection

    def serving(authority: Authority, name: str) -> Callable[[], Any]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue(name, name))
        return lambda: listening(context)

    folders = [tmp_path / "cluster", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    cluster, other = (Authority(folder) for folder in folders)
    with serving(cluster, "a")() as port:
        days = tool.served("127.0.0.1", folders[0] / "ca.crt", port)
        assert isinstance(days, int) and days >= 0
    # The inventory may have a name that is not in the certificate.
    monkeypatch.setattr(
        tool.socket, "create_connection", lambda place, timeout: connect(("127.0.0.1", place[1]))
    )
    with serving(cluster, "c")() as port:
        assert isinstance(tool.served("dgx01.example.com", folders[0] / "ca.crt", port), int)
    monkeypatch.undo()
    with serving(other, "b")() as port:
        assert "is not the cluster's" in tool.served("127.0.0.1", folders[0] / "ca.crt", port)
    with listening(None) as port:
        assert tool.served("127.0.0.1", folders[0] / "ca.crt", port) == "it has no certificate"
    assert "does not answer" in tool.served("127.0.0.1", folders[0] / "ca.crt", 1)
