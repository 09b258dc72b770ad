"""Stores for copies of backups: S3 and stores with its interface, an NFS export, a host with rsync over ssh.

Each has the same methods. Names are those of files in one folder of the store; a copy has its name when it is
whole. Secrets are read from files that only root can read, and are in no argument and no message.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PART = 64 << 20
"""Bytes of a part of an upload to S3, which takes 10,000 parts (AWS: multipart upload limits)."""
TURN_S = 3600
"""Seconds that a host waits until another one has sent its copies."""
BUSY = "Another instance of rrsync"
MOUNT = Path("/run/gpufleet-backup")
_RETRIES = 5


class StoreError(Exception):
    """Error and remedy in one text."""


def blocks(path: Path, size: int = 1 << 20) -> Iterator[bytes]:
    """The contents of a file."""
    with path.open("rb") as stream:
        while block := stream.read(size):
            yield block


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    total = hashlib.sha256()
    for block in blocks(path):
        total.update(block)
    return total.hexdigest()


def run(*command: str) -> str:
    """The output of a program; raises StoreError with the end of its errors."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise StoreError(
            f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"
        )
    return done.stdout


class S3Store:
    """A prefix of a bucket. Every part is sent with its MD5, which S3 compares before it accepts the part."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        # Stores without AWS's newer checksums refuse them (boto3 1.36 and later send them).
        os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        os.environ.setdefault("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        self.errors = (BotoCoreError, ClientError)
        self.url = config["url"].rstrip("/")
        self.bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        self.prefix = f"{prefix}/" if prefix else ""
        identifier, _, secret = (folder / "s3-key").read_text().strip().partition(":")
        style = {"addressing_style": "path"} if config.get("endpoint") else {}
        self.client = boto3.client(
            "s3",
            endpoint_url=config.get("endpoint") or None,
            region_name=config.get("region") or "us-east-1",
            aws_access_key_id=identifier,
            aws_secret_access_key=secret,
            config=Config(
                connect_timeout=20,
                read_timeout=120,
                retries={"max_attempts": _RETRIES, "mode": "standard"},
                s3=style,
            ),
        )

    def _ask(self, operation: str, **arguments: Any) -> Any:
        try:
            return getattr(self.client, operation)(Bucket=self.bucket, **arguments)
        except self.errors as error:
            raise StoreError(f"{self.url}: {error}") from error

    def _pages(self, operation: str, key: str) -> Iterator[dict[str, Any]]:
        try:
            for page in self.client.get_paginator(operation).paginate(Bucket=self.bucket, Prefix=self.prefix):
                yield from page.get(key, ())
        except self.errors as error:
            raise StoreError(f"{self.url}: {error}") from error

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of all copies."""
        found = self._pages("list_objects_v2", "Contents")
        return {item["Key"].removeprefix(self.prefix): int(item["Size"]) for item in found}

    def put(self, path: Path) -> None:
        """Store a file under its name, and verify the result."""
        key = {"Key": self.prefix + path.name}
        if path.stat().st_size <= PART:
            body = path.read_bytes()
            self._ask("put_object", **key, Body=body, ContentMD5=base64.b64encode(_md5(body)).decode())
        else:
            self._put_parts(path, key)
        self._verify(path, key)

    def _put_parts(self, path: Path, key: dict[str, str]) -> None:
        upload = {**key, "UploadId": self._ask("create_multipart_upload", **key)["UploadId"]}
        try:
            parts = []
            for number, body in enumerate(blocks(path, PART), start=1):
                md5 = base64.b64encode(_md5(body)).decode()
                done = self._ask("upload_part", **upload, PartNumber=number, Body=body, ContentMD5=md5)
                parts.append({"PartNumber": number, "ETag": done["ETag"]})
            self._ask("complete_multipart_upload", **upload, MultipartUpload={"Parts": parts})
        except BaseException:
            self._ask("abort_multipart_upload", **upload)
            raise

    def _verify(self, path: Path, key: dict[str, str]) -> None:
        """Compare the ETag, which is made of MD5s; read the copy back where it is not (KMS)."""
        head, size = self._ask("head_object", **key), path.stat().st_size
        etag = head["ETag"].strip('"').lower()
        if head["ContentLength"] == size:
            if etag == _etag(path, multipart="-" in etag):
                return
            total = hashlib.sha256()
            for block in self._body(key):
                total.update(block)
            if total.hexdigest() == digest(path):
                return
        name = key["Key"].rpartition("/")[2]
        raise StoreError(
            f"{name} in {self.url} is not what was sent: {head['ContentLength']} bytes of {size}, ETag {etag}"
        )

    def _body(self, key: dict[str, str]) -> Iterator[bytes]:
        try:
            yield from self._ask("get_object", **key)["Body"].iter_chunks(1 << 20)
        except self.errors as error:
            raise StoreError(f"{self.url}: {error}") from error

    def get(self, name: str, path: Path) -> None:
        """Fetch a copy into a file."""
        with path.open("wb") as stream:
            for block in self._body({"Key": self.prefix + name}):
                stream.write(block)

    def remove(self, names: list[str]) -> None:
        """Remove copies."""
        for name in names:
            self._ask("delete_object", Key=self.prefix + name)

    def clean(self, mine: Callable[[str], object]) -> None:
        """End uploads that a killed run left: they take room, and cost, without being listed."""
        for item in list(self._pages("list_multipart_uploads", "Uploads")):
            if mine(item["Key"].removeprefix(self.prefix)):
                self._ask("abort_multipart_upload", Key=item["Key"], UploadId=item["UploadId"])


def _md5(body: bytes) -> bytes:
    return hashlib.md5(body, usedforsecurity=False).digest()


def _etag(path: Path, *, multipart: bool) -> str:
    """The ETag of a file as S3 makes it from the MD5 of the file, or of its parts' MD5s."""
    parts = [_md5(body) for body in blocks(path, PART)]
    if multipart:
        return f"{_md5(b''.join(parts)).hex()}-{len(parts)}"
    return parts[0].hex() if len(parts) == 1 else ""


class NfsStore:
    """An export, mounted in the mount namespace of this process: it is gone with the process."""

    def __init__(self, config: dict[str, Any], _folder: Path) -> None:
        MOUNT.mkdir(mode=0o700, exist_ok=True)
        run("mount", "-t", "nfs", "-o", "nosuid,nodev,noexec", config["source"], str(MOUNT))
        self.root = MOUNT

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of all copies."""
        return {path.name: path.stat().st_size for path in self.root.iterdir() if path.is_file()}

    def put(self, path: Path) -> None:
        """Store a file under its name, and verify the result."""
        free, size = shutil.disk_usage(self.root).free, path.stat().st_size
        if free < size:
            raise StoreError(
                f"the export has {free >> 20} MiB free, and the copy has {size >> 20} MiB: make room there"
            )
        part = self.root / f".{path.name}.part"
        try:
            with part.open("wb") as stream:
                for block in blocks(path):
                    stream.write(block)
                stream.flush()
                os.fsync(stream.fileno())
                # Read from the server, not from the cache of this host.
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if digest(part) != digest(path):
                raise StoreError(f"{path.name} on the export is not what was sent: its SHA-256 differs")
            part.rename(self.root / path.name)
        finally:
            part.unlink(missing_ok=True)

    def get(self, name: str, path: Path) -> None:
        """Fetch a copy into a file."""
        shutil.copyfile(self.root / name, path)

    def remove(self, names: list[str]) -> None:
        """Remove copies."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def clean(self, mine: Callable[[str], object]) -> None:
        """Remove what a killed run left."""
        for path in self.root.glob(".*.part"):
            if mine(path.name[1 : -len(".part")]):
                path.unlink(missing_ok=True)


class RsyncStore:
    """A folder of a host that rsync reaches over ssh. Its account may be restricted to rsync (rrsync)."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        self.to = config["to"].rstrip("/") + "/"
        options = (
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            "ConnectTimeout=30",
            f"UserKnownHostsFile={folder}/known_hosts",
            "GlobalKnownHostsFile=/dev/null",
            "ServerAliveInterval=30",
            f"Port={config['port']}",
        )
        words = [
            "ssh",
            "-F",
            "none",
            "-i",
            str(folder / "ssh-key"),
            *(part for item in options for part in ("-o", item)),
        ]
        self.command = ("rsync", "--no-motd", "--timeout=600", "--rsh", " ".join(words))

    def _run(self, *words: str) -> str:
        """Run rsync. rrsync serves one connection to a folder at a time, and all members send to it."""
        deadline = time.monotonic() + TURN_S
        while True:
            try:
                return run(*self.command, *words)
            except StoreError as error:
                if BUSY not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.5, 5))  # noqa: S311

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of all copies."""
        found = {}
        for line in self._run("--list-only", "--no-human-readable", self.to).splitlines():
            fields = line.split(None, 4)
            if len(fields) == len(("mode", "size", "date", "time", "name")) and fields[0].startswith("-"):
                found[fields[4]] = int(fields[1].replace(",", ""))
        return found

    def put(self, path: Path) -> None:
        """Store a file under its name; a second run compares the checksums of both sides."""
        words = ("--times", str(path), self.to)
        self._run("--chmod=F600", *words)
        compared = self._run("--dry-run", "--checksum", "--itemize-changes", "--out-format=%i", *words)
        if any(line.startswith((">f", "<f")) for line in compared.splitlines()):
            raise StoreError(f"{path.name} on {self.to} is not what was sent: its checksum differs")

    def get(self, name: str, path: Path) -> None:
        """Fetch a copy into a file."""
        self._run(self.to + name, str(path))

    def remove(self, names: list[str]) -> None:
        """Remove copies: an empty folder takes the place of these names only."""
        if names:
            with tempfile.TemporaryDirectory() as empty:
                only = [f"--include=/{name}" for name in names]
                self._run("--recursive", "--delete", *only, "--exclude=*", f"{empty}/", self.to)

    def clean(self, mine: Callable[[str], object]) -> None:
        """Nothing: rsync removes its own temporary files."""


STORES: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    "s3": S3Store,
    "nfs": NfsStore,
    "rsync": RsyncStore,
}


def open_store(folder: Path) -> tuple[dict[str, Any], Any]:
    """The configuration in a folder, and its store."""
    try:
        config = json.loads((folder / "target.json").read_text())
        return config, STORES[config["store"]["kind"]](config["store"], folder)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be read: {error}. Run `gpufleet configure` for this host first"
        ) from error
    except ImportError as error:
        raise StoreError(
            f"{error}: install python3-boto3, or run `gpufleet configure` for this host"
        ) from error
