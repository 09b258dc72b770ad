"""Stores for copies of backups on loopback, moto's S3 server and sshd with rsync, and the role's program."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from gpufleet.racks.age import new_identity
from tests.kube.cluster import free_ports

ROLE = Path(__file__).resolve().parents[2] / "ansible" / "roles" / "backup_target" / "files"
BUCKET = "atlas-backups"
SECRET = "the-secret-access-key-of-the-store"


@contextmanager
def running(port: int, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server until the end of the block, which begins when it listens."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while (
            f":{port} "
            not in subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
        ):
            assert process.poll() is None and time.monotonic() < deadline, command
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """The `store` of a target in an empty bucket of moto's server."""
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    with running(port, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)):
        bucket_client(endpoint).create_bucket(Bucket=BUCKET)
        yield {"kind": "s3", "url": f"s3://{BUCKET}/dc1", "endpoint": endpoint}


def bucket_client(endpoint: str) -> Any:
    """boto3's client of the server."""
    keys = {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": SECRET}
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)


@contextmanager
def ssh_server(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The `store` of a target on an sshd, and the only key, which may run rsync in one folder, in base64."""
    place = folder / "copies"
    place.mkdir(parents=True)
    for name in ("host", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    allowed = f'command="/usr/bin/rrsync {place}",restrict {(folder / "key.pub").read_text()}'
    (folder / "allowed").write_text(allowed)
    (port,) = free_ports(1)
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "allowed",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PermitRootLogin": "forced-commands-only",
    }
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    with running(port, "/usr/sbin/sshd", "-D", "-f", str(folder / "sshd_config")):
        host_key = " ".join((folder / "host.pub").read_text().split()[:2])
        store = {"kind": "rsync", "to": "root@127.0.0.1:/", "port": port, "host_key": host_key}
        yield store, base64.b64encode((folder / "key").read_bytes()).decode()


class Target:
    """The program of the role with its configuration, for the backups of one host."""

    def __init__(
        self, folder: Path, store: Mapping[str, Any], sources: list[dict[str, str]], keep: int = 28
    ) -> None:
        self.folder, self.store, self.identity = folder, dict(store), new_identity()
        self.config, self.textfiles, self.leave_percent = folder / "config", folder / "textfiles", 0
        self.config.mkdir(parents=True)
        self.textfiles.mkdir()
        document = {"store": self.store, "sources": sources, "keep": keep}
        (self.config / "target.json").write_text(json.dumps(document))
        words = ["age-keygen", "-y"]
        done = subprocess.run(words, input=self.identity, capture_output=True, text=True, check=True)
        (self.config / "recipient").write_text(done.stdout)
        self.write_key("s3-key", f"AKIAEXAMPLE:{SECRET}\n")

    def write_key(self, name: str, text: str) -> None:
        """Write a file of the configuration as the role does."""
        (self.config / name).write_text(text)
        (self.config / name).chmod(0o600)

    @property
    def program(self) -> list[str]:
        """The command line without its action."""
        options = ["--config", str(self.config), "--textfiles", str(self.textfiles)]
        # The disk of whoever runs the tests may be full.
        options += ["--leave-percent", str(self.leave_percent)]
        return [sys.executable, str(ROLE / "backup-target"), *options]

    def run(self, *words: str, stdin: str = "", code: int = 0) -> str:
        """Run the program; its output, or its error in one line if it must fail."""
        done = subprocess.run(
            [*self.program, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={"PATH": os.environ["PATH"]},
        )
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
        assert self.identity not in done.stdout + done.stderr and SECRET not in done.stdout + done.stderr
        return done.stdout if code == 0 else " ".join(done.stderr.split())

    def listed(self) -> list[str]:
        """The names of the copies."""
        return [item["name"] for item in json.loads(self.run("list"))]

    def metrics(self) -> dict[str, int]:
        """Values of the last run for Prometheus."""
        lines = [line for path in self.textfiles.iterdir() for line in path.read_text().splitlines()]
        values = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name.partition("{")[0].removeprefix("gpufleet_backup_"): int(value) for name, value in values}


def etcd_source(folder: Path, host: str = "ctl01") -> dict[str, str]:
    """What a member copies."""
    return {"name": "etcd", "folder": str(folder), "local": "etcd", "remote": f"etcd-dc1-{host}"}
