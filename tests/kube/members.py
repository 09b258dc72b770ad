"""Control plane members on loopback: real etcd, run from its manifest like a kubelet does.

Each member has a folder with kubeadm's files, and stand-ins for containerd: `crictl` lists what runs,
`ctr` runs programs of etcd's image here. Debian's etcd is 3.4, where `etcdctl` restores snapshots and knows
no `--bump-revision`; `GPUFLEET_TEST_ETCD` names a folder with the etcd, etcdctl and etcdutl of another
release, which are then used as they are.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.kube.certificates import Authority, signing_key
from tests.kube.cluster import free_ports

FILES = Path(__file__).resolve().parents[2] / "ansible" / "roles" / "kubernetes_control_plane" / "files"
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
OTHER_ETCD = os.environ.get("GPUFLEET_TEST_ETCD", "")
PATH = ":".join(filter(None, (OTHER_ETCD, "/usr/bin", "/bin")))

# etcdutl came with etcd 3.5. Calls of the image's programs are recorded.
IMAGE = """\
program=$1; shift
echo "$program $*" >>{folder}/called
if [ -e {folder}/no-room ] && [ "$1 $2" = "snapshot restore" ]; then
  for word in "$@"; do case $word in --data-dir=*) mkdir -p "${{word#*=}}/member"; esac; done
  echo 'write: no space left on device' >&2; exit 1
fi
[ "$program" != etcdutl ] || command -v etcdutl >/dev/null || program="etcdctl without"
for word in "$@"; do
  shift
  case "$program $word" in
    *"without --bump-revision="*|*"without --mark-compacted") ;;
    *--endpoints=https://127.0.0.1:2379) set -- "$@" --endpoints={client};;
    *) set -- "$@" "$word";;
  esac
done
ETCDCTL_API=3 exec "${{program% without}}" "$@"
"""
CTR = """\
#!/bin/sh
while :; do case $1 in --*|run) shift;; *) break;; esac; done
shift 2
"""
CRICTL = """\
#!/bin/sh
case $1 in
  pods) for last in "$@"; do :; done
    if [ -e {folder}/run/"${{last#component=}}" ]; then cat {folder}/run/"${{last#component=}}"; fi; exit 0;;
  stopp) kill "$2"; i=0; while kill -0 "$2" 2>/dev/null && [ $((i += 1)) -lt 200 ]; do sleep 0.1; done
    kill -9 "$2" 2>/dev/null; exit 0;;
  rmp) exit 0;;
  ps) echo c0ffee; exit 0;;
esac
shift 2
"""
RESTORE = """\
#!/bin/sh
PATH={folder}/bin:{path} exec {python} {files}/etcd-restore "$@"
"""
# An API server for the one request that it gets.
API = """\
import http.server, ssl, sys
class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
port, certificate, key = (word.partition("=")[2] for word in sys.argv[1:4])
server = http.server.HTTPServer(("127.0.0.1", int(port)), Api)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
STANDING = """\
#!/bin/sh
exec sleep 1000
"""


class Member:
    """Files of one member. `Kubelet` runs them."""

    def __init__(self, folder: Path, name: str, authority: Authority, ports: Sequence[int]) -> None:
        self.folder, self.name, self.authority = folder, name, authority
        self.kubernetes, self.data = folder / "kubernetes", folder / "data"
        self.client, self.peer, self.secure = (f"https://127.0.0.1:{port}" for port in ports)
        self.manifests, self.pki = self.kubernetes / "manifests", self.kubernetes / "pki"
        for path in (self.manifests, self.pki / "etcd", self.data, folder / "bin", folder / "run"):
            path.mkdir(parents=True)
        ca = (authority.folder / "ca.crt").read_bytes()
        for name_of in ("ca.crt", "etcd/ca.crt"):
            (self.pki / name_of).write_bytes(ca)
        for name_of in ("ca.key", "etcd/ca.key", "sa.key"):
            (self.pki / name_of).write_text(f"{name_of} of the cluster\n")
        for part in ("server", "peer"):
            for path in authority.issue(f"{name}-{part}", name):
                shutil.copy(path, self.pki / "etcd" / f"{part}{path.suffix}")
        for path in authority.issue(f"{name}-api", "kube-apiserver"):
            shutil.copy(path, self.pki / f"apiserver{path.suffix}")
        image = IMAGE.format(folder=folder, client=self.client)
        self.program("ctr", CTR + image)
        self.program("crictl", CRICTL.format(folder=folder) + image)
        self.program(
            "etcd-restore", RESTORE.format(folder=folder, path=PATH, python=sys.executable, files=FILES)
        )
        for part in PARTS[2:]:
            self.program(part, STANDING)
        (folder / "api.py").write_text(API)

    def program(self, name: str, text: str) -> None:
        """Install a stand-in for this member."""
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def write_manifests(self, cluster: str, api: Sequence[str] = (), image: str = "v1.35.4") -> None:
        """Manifests with kubeadm's flags. `api` is the command of another API server."""
        keys = self.pki / "etcd"
        etcd = [
            "etcd",
            f"--advertise-client-urls={self.client}",
            f"--cert-file={keys}/server.crt",
            "--client-cert-auth=true",
            f"--data-dir={self.data}",
            "--heartbeat-interval=50",
            "--election-timeout=500",
            f"--initial-advertise-peer-urls={self.peer}",
            f"--initial-cluster={cluster}",
            f"--key-file={keys}/server.key",
            f"--listen-client-urls={self.client}",
            f"--listen-peer-urls={self.peer}",
            f"--name={self.name}",
            f"--peer-cert-file={keys}/peer.crt",
            "--peer-client-cert-auth=true",
            f"--peer-key-file={keys}/peer.key",
            f"--peer-trusted-ca-file={keys}/ca.crt",
            f"--trusted-ca-file={keys}/ca.crt",
        ]
        port = self.secure.rpartition(":")[2]
        server = [
            f"--tls-cert-file={self.pki}/apiserver.crt",
            f"--tls-private-key-file={self.pki}/apiserver.key",
        ]
        server = list(api) or [sys.executable, str(self.folder / "api.py"), f"--secure-port={port}", *server]
        server += ["--bind-address=127.0.0.1"]
        self._manifest("etcd", "registry.k8s.io/etcd:3.6.5-0", etcd)
        self._manifest("kube-apiserver", f"registry.k8s.io/kube-apiserver:{image}", server)
        for part in PARTS[2:]:
            self._manifest(part, f"registry.k8s.io/{part}:{image}", [str(self.folder / "bin" / part)])

    def _manifest(self, part: str, image: str, command: list[str]) -> None:
        container = {"command": command, "image": image, "name": part}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": part},
            "spec": {"containers": [container]},
        }
        (self.manifests / f"{part}.yaml").write_text(yaml.safe_dump(pod, width=1000))

    def run(self, program: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of the role's programs on this member."""
        return subprocess.run(
            [sys.executable, FILES / program, *words],
            env={"PATH": f"{self.folder}/bin:{PATH}"},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def restore(self, step: str, *words: str, stdin: str = "", code: int = 0) -> Any:
        """A step of etcd-restore: its answer, or its error if it must fail."""
        done = self.run("etcd-restore", step, *words, "--kubernetes", str(self.kubernetes), stdin=stdin)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
        return json.loads(done.stdout) if code == 0 else " ".join(done.stderr.split())

    def back_up(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run etcd-backup. A test machine with little free space is not its subject."""
        places = ["--kubernetes", str(self.kubernetes), "--textfiles", str(self.folder / "textfiles")]
        return self.run("etcd-backup", "take", str(folder), "--leave-percent", "0", *places, *words)

    def take(self, folder: Path) -> Path:
        """A snapshot as the timer creates it."""
        done = self.back_up(folder)
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip())

    def etcdctl(self, *words: str, code: int | None = 0) -> str:
        """etcd's answer on this member."""
        keys = self.pki / "etcd"
        flags = [f"--endpoints={self.client}", f"--cacert={keys}/ca.crt", f"--cert={keys}/server.crt"]
        done = subprocess.run(
            ["etcdctl", *flags, f"--key={keys}/server.key", "--command-timeout=5s", *words],
            env={"PATH": PATH, "ETCDCTL_API": "3"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert code is None or done.returncode == code, done.stderr + done.stdout
        return done.stdout

    def put(self, **values: str) -> None:
        """Writes keys."""
        for key, value in values.items():
            self.etcdctl("put", key, value)

    def values(self) -> dict[str, str]:
        """All keys with their values."""
        found = json.loads(self.etcdctl("get", "", "--prefix", "--write-out=json")).get("kvs", [])
        text = [
            {name: base64.b64decode(item.get(name, "")).decode() for name in ("key", "value")}
            for item in found
        ]
        return {item["key"]: item["value"] for item in text}

    @property
    def revision(self) -> int:
        """etcd's revision."""
        (status,) = json.loads(self.etcdctl("endpoint", "status", "--write-out=json"))
        return int(status["Status"]["header"]["revision"])

    def called(self, word: str) -> list[str]:
        """Calls of the image's programs."""
        path = self.folder / "called"
        return [line for line in path.read_text().splitlines() if word in line] if path.exists() else []


class Kubelet:
    """Runs the commands of the members' manifests while the manifests exist."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self._running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def start(self) -> None:
        """Start, and return when every etcd is healthy."""
        self._thread.start()
        deadline = time.monotonic() + 300
        for member in self.members:
            while "true" not in member.etcdctl("endpoint", "health", "--write-out=json", code=None):
                assert time.monotonic() < deadline, (member.folder / "etcd.log").read_text()[-3000:]
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop all."""
        self._ending.set()
        self._thread.join()
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def _work(self) -> None:
        while not self._ending.wait(0.05):
            for member in self.members:
                for part in PARTS:
                    self._follow(member, part)

    def _follow(self, member: Member, part: str) -> None:
        manifest, mark, key = (
            member.manifests / f"{part}.yaml",
            member.folder / "run" / part,
            (member.name, part),
        )
        process = self._running.get(key)
        if manifest.exists() and (process is None or process.poll() is not None):
            command = yaml.safe_load(manifest.read_text())["spec"]["containers"][0]["command"]
            with (member.folder / f"{part}.log").open("ab") as log:
                self._running[key] = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={"PATH": PATH, "HOME": str(member.folder)},
                )
            mark.write_text(f"{self._running[key].pid}\n")
        elif not manifest.exists() and process is not None:
            process.kill() if part != "etcd" else process.terminate()
            process.wait(30)
            del self._running[key]
            mark.unlink()


def make_members(folder: Path, names: Sequence[str]) -> list[Member]:
    """Members of one cluster with their manifests written; nothing runs yet."""
    (folder / "authority").mkdir(parents=True)
    authority = Authority(folder / "authority")
    ports = free_ports(3 * len(names))
    signing_key(folder / "authority" / "accounts.key")
    made = [
        Member(folder / name, name, authority, ports[3 * index : 3 * index + 3])
        for index, name in enumerate(names)
    ]
    cluster = ",".join(f"{member.name}={member.peer}" for member in made)
    for member in made:
        member.write_manifests(cluster)
    return made
