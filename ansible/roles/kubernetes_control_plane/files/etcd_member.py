"""A control plane member from kubeadm's manifests, and snapshots of its etcd."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Files that differ between members, or that kubeadm creates again, are not in a backup.
AUTHORITIES = (
    "ca.crt",
    "ca.key",
    "sa.key",
    "sa.pub",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "etcd/ca.crt",
    "etcd/ca.key",
)


class EtcdError(Exception):
    """Error and remedy in one text."""


def call(*command: str, timeout_s: float = 1800) -> str:
    """The output of a program; fails with the end of its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode != 0:
        raise EtcdError(f"`{' '.join(command[-4:])}` failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def replace(path: Path, text: str) -> None:
    """Write a file atomically, readable only by root."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.new")
    with part.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(path)


def move(source: Path, target: Path) -> None:
    """Rename, and sync both folders: a power failure cannot undo it after a later step."""
    source.rename(target)
    for folder in {source.parent, target.parent}:
        number = os.open(folder, os.O_RDONLY)
        os.fsync(number)
        os.close(number)


def until(what: Callable[[], str], seconds: float, remedy: str) -> None:
    """Wait until `what` returns no problem; fails with the last one."""
    deadline = time.monotonic() + seconds
    while complaint := what():
        if time.monotonic() > deadline:
            raise EtcdError(f"{complaint}, {seconds:.0f} s after it should not. {remedy}")
        time.sleep(0.5)


class Snapshot:
    """A folder of etcd-backup."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder.absolute(), folder.absolute() / "snapshot.db"
        try:
            self.about: dict[str, Any] = json.loads((folder / "about.json").read_text())
            self.bytes = self.path.stat().st_size
            with self.path.open("rb") as stream:
                stream.seek(max(self.bytes - 32, 0))
                self.digest = stream.read().hex()
            self.revision, self.taken = int(self.about["revision"]), str(self.about["taken"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EtcdError(
                f"{folder} is no snapshot of etcd ({error}). Name a folder `etcd-...` that"
                " etcd-backup has made: `etcd-backup show FOLDER` lists them"
            ) from None

    def require_whole(self) -> None:
        """etcd appends the SHA-256 of a snapshot; a truncated or changed one does not match."""
        digest, left = hashlib.sha256(), self.bytes - 32
        with self.path.open("rb") as stream:
            while left > 0 and (part := stream.read(min(left, 1 << 20))):
                digest.update(part)
                left -= len(part)
        if self.bytes != self.about.get("bytes", self.bytes) or digest.hexdigest() != self.digest:
            raise EtcdError(
                f"{self.path} is not what etcd has written: it has {self.bytes} bytes of"
                f" {self.about.get('bytes')}, or its sha256 is another. Use another snapshot, or"
                " copy it again from its source"
            )

    def authorities(self) -> dict[str, bytes]:
        """Certificates and keys of the cluster by name, without other files of the archive."""
        try:
            with tarfile.open(self.folder / "pki.tar") as archive:
                files = [item for item in archive if item.isreg() and item.name in AUTHORITIES]
                found = {item.name: archive.extractfile(item).read() for item in files}
        except (OSError, tarfile.TarError, AttributeError) as error:
            raise EtcdError(
                f"{self.folder}/pki.tar, the cluster's authorities, cannot be read ({error}). Use"
                " another snapshot, or copy it again from its source"
            ) from None
        if not {"ca.crt", "ca.key"} <= found.keys():
            raise EtcdError(f"{self.folder}/pki.tar lacks the cluster's authority (ca.crt, ca.key)")
        return found


class Member:
    """This host from the control plane's manifests, and its progress in a restore."""

    def __init__(self, kubernetes: Path) -> None:
        self.kubernetes = kubernetes
        self.manifests, self.pki = kubernetes / "manifests", kubernetes / "pki"
        self.stopped = kubernetes / "gpufleet" / "restore" / "stopped"
        self.order_file = kubernetes / "gpufleet" / "restore" / "order.json"

    def manifest(self, part: str) -> str:
        """The manifest of a component, also while it is stopped."""
        for folder in (self.manifests, self.stopped):
            if (folder / f"{part}.yaml").is_file():
                return (folder / f"{part}.yaml").read_text()
        raise EtcdError(
            f"there is no {part}.yaml in {self.manifests}: the host is no member of a control"
            " plane that kubeadm has set up. Run `gpufleet configure` first"
        )

    def flag(self, name: str, part: str = "etcd") -> str:
        """The value of a command line flag."""
        if hit := re.search(rf"^\s*- --{name}=(\S+)$", self.manifest(part), re.MULTILINE):
            return hit[1].strip("\"'")
        raise EtcdError(f"{part}.yaml has no --{name}; it is not kubeadm's")

    @property
    def data(self) -> Path:
        """etcd's data folder, which may be a mount point."""
        return Path(self.flag("data-dir"))

    @property
    def order(self) -> dict[str, Any] | None:
        """The plan for this host, or the completed one."""
        return json.loads(self.order_file.read_text()) if self.order_file.is_file() else None

    def required(self) -> dict[str, Any]:
        """The plan; fails without one."""
        if (order := self.order) is None:
            raise EtcdError("no restore is under way here; begin with `etcd-restore prepare`")
        return order

    @property
    def new(self) -> Path:
        """Folder of the new data."""
        return self.data / f"restoring-{self.required()['id']}"

    @property
    def exchanged(self) -> bool:
        """Whether the data are those of the plan."""
        mark = self.data / "gpufleet-restored"
        return mark.is_file() and mark.read_text().strip() == self.required()["id"]

    def program(self, *words: str, folder: Path | None = None, timeout_s: float = 1800) -> str:
        """Run a program of etcd's image, also without a kubelet, with `folder` mounted."""
        if not (hit := re.search(r"^\s*image: (\S+)$", self.manifest("etcd"), re.MULTILINE)):
            raise EtcdError("etcd.yaml names no image; it is not kubeadm's")
        mounts = [(self.data, "rw"), (Path(self.flag("trusted-ca-file")).parent, "ro")]
        mounts += [(folder, "ro")] if folder else []
        binds = [f"--mount=type=bind,src={path},dst={path},options=rbind:{mode}" for path, mode in mounts]
        name = f"gpufleet-etcd-restore-{os.getpid()}-{secrets.token_hex(4)}"
        image = hit[1].strip("\"'")
        run = ("ctr", "--namespace=k8s.io", "run", "--rm", "--net-host", *binds, image, name)
        return call(*run, *words, timeout_s=timeout_s)

    def etcdctl(self, *words: str) -> Any:
        """The answer of etcd on this host, as JSON."""
        address = re.sub(r".*?(https?://127\.0\.0\.1:\d+).*", r"\1", self.flag("listen-client-urls"))
        output = self.program(
            "etcdctl",
            f"--endpoints={address}",
            f"--cacert={self.flag('trusted-ca-file')}",
            f"--cert={self.flag('cert-file')}",
            f"--key={self.flag('key-file')}",
            "--command-timeout=5s",
            "--write-out=json",
            *words,
            timeout_s=60,
        )
        return json.loads(output or "null")

    def runs(self, part: str) -> bool:
        """Whether the kubelet has a pod of the component."""
        return bool(
            call(
                "crictl",
                "pods",
                "--quiet",
                "--namespace",
                "kube-system",
                "--state",
                "Ready",
                "--label",
                f"component={part}",
            ).split()
        )

    def revision(self) -> int | None:
        """The revision of etcd here; 0 without data, None if it cannot be read."""
        database = self.data / "member" / "snap" / "db"
        if not database.is_file():
            return 0
        try:
            if self.runs("etcd"):
                return int(self.etcdctl("endpoint", "status")[0]["Status"]["header"]["revision"])
            output = self.program("etcdutl", "snapshot", "status", str(database), "--write-out=json")
            return int(json.loads(output)["revision"])
        except (EtcdError, ValueError, KeyError, IndexError, TypeError, subprocess.TimeoutExpired):
            return None


def release(text: str) -> tuple[int, ...]:
    """Major and minor number of a version; empty without one."""
    hit = re.match(r"v?(\d+)\.(\d+)", text)
    return tuple(int(part) for part in hit.groups()) if hit else ()


def encryption_keys(kubernetes: Path) -> list[str]:
    """Digests of the encryption keys, as etcd-backup records them."""
    path = kubernetes / "gpufleet" / "encryption.yaml"
    found = re.findall(r'secret: "?([A-Za-z0-9+/=]+)', path.read_text()) if path.is_file() else []
    return [hashlib.sha256(key.encode()).hexdigest() for key in found]


def release_of_api(kubernetes: Path) -> str:
    """The API server release of this host, as `1.35.4`; empty without one."""
    path = kubernetes / "manifests" / "kube-apiserver.yaml"
    hit = re.search(r"/kube-apiserver:v?([\d.]+)", path.read_text()) if path.is_file() else None
    return hit[1] if hit else ""
