"""A real API server with etcd, on loopback, with its own certificates, stopped by process id.

There is no controller manager, scheduler or node: objects are accepted or refused, and stay
they were written.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from gpufleet.lab.kubernetes import kubeconfig
from gpufleet.lab.kubernetes.rest import Rest
from tests.kube.build import MINOR, kube_apiserver
from tests.kube.certificates import Authority, signing_key

_READY_S = 300.0


class ApiServerProcess:
    """etcd and kube-apiserver in a folder. `kubeconfig` is a file for an administrator."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = (), *, minor: str = MINOR) -> None:
        """`flags` are additional flags of the server."""
        self.folder = folder
        self.flags = flags
        self.minor = minor
        self._processes: list[subprocess.Popen[bytes]] = []
        self.authority = Authority(folder)
        self.token = secrets.token_urlsafe(24)
        self.server = ""

    def start(self) -> None:
        """Start both and return when the server is ready; stop both if it is not."""
        try:
            etcd, peer, secure = free_ports(3)
            self._run("etcd", *self._etcd_flags(etcd, peer))
            self._run(str(kube_apiserver(self.minor)), *self._server_flags(etcd, secure))
            self.server = f"https://127.0.0.1:{secure}"
            self._write_kubeconfig()
            self._wait_ready()
        except BaseException:
            self.stop()
            raise

    def _run(self, command: str, *flags: str) -> None:
        log = (self.folder / f"{Path(command).name}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                # The kernel ends it with its parent, however that ends. setpriv asks for that after the
                # exec: Python code between fork and exec (preexec_fn) meets the threads of gRPC.
                ["setpriv", "--pdeathsig", "KILL", command, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
            )
        )
        log.close()

    def _etcd_flags(self, port: int, peer: int) -> tuple[str, ...]:
        clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
        return (
            "--name=test",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=test={peers}",
        )

    def _server_flags(self, etcd: int, secure: int) -> tuple[str, ...]:
        certificate, key = self.authority.issue("server", "kube-apiserver")
        accounts = signing_key(self.folder / "accounts.key")
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        return (
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={secure}",
            # Only written into objects: nothing listens there.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.folder / 'ca.crt'}",
            f"--token-auth-file={tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-cluster-ip-range=198.51.100.0/24",
            # As kubeadm sets them.
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # No controllers run here: none creates service accounts of pods, and none lets claims go.
            "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            *self.flags,
        )

    def _write_kubeconfig(self) -> None:
        certificate, key = self.authority.issue("admin", "admin", "system:masters")
        user = {"client-certificate": certificate.name, "client-key": key.name}
        self.kubeconfig.write_text(json.dumps(self.config(user)))

    @property
    def kubeconfig(self) -> Path:
        """An administrator's kubeconfig with a certificate."""
        return self.folder / "kubeconfig"

    def config(self, user: dict[str, str]) -> dict[str, Any]:
        """A kubeconfig for a user with the given credentials."""
        cluster = {"server": self.server, "certificate-authority": "ca.crt"}
        return {
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
            "current-context": "test",
        }

    def rest(self) -> Rest:
        """A direct connection of the tests."""
        return Rest(kubeconfig.read(str(self.kubeconfig)))

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            ended = [process for process in self._processes if process.poll() is not None]
            if ended:
                raise RuntimeError(f"{ended[0].args} ended:\n{self.tail()}")
            try:
                # Answers 200 with the text "ok" once every start-up step is done.
                self.rest().call("GET", "/readyz")
            except Exception as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the API server is not ready ({error}):\n{self.tail()}") from error
                time.sleep(0.2)
            else:
                return

    def tail(self) -> str:
        """The last lines of both logs."""
        return "\n".join(
            f"{path.name}: {line}"
            for path in sorted(self.folder.glob("*.log"))
            for line in path.read_text(errors="replace").splitlines()[-10:]
        )

    def stop(self) -> None:
        """Stop both processes, the server first."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()


def free_ports(count: int) -> list[int]:
    """Free ports; all are held until the last one is found, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(item.getsockname()[1]) for item in held]
    for item in held:
        item.close()
    return ports
