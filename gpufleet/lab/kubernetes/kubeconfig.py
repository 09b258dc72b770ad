"""Kubeconfig files: their API server and credentials."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gpufleet.errors import InputError

_REMEDY = "`kubectl config view --minify --flatten --raw` writes one without references to other files"


class ClusterConnection(Struct, frozen=True):
    """The active context of a kubeconfig. Certificates and key are PEM texts, empty where not given.

    `uses_command`: credentials come from a command (`exec`), which the sandbox never runs.
    """

    name: str
    server: str
    ca: str = ""
    client_certificate: str = ""
    client_key: str = ""
    token: str = ""
    namespace: str = ""
    uses_command: bool = False

    @property
    def on_this_machine(self) -> bool:
        """Return whether the server is on loopback, the only place that the sandbox connects to."""
        host = urlsplit(self.server).hostname or ""
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, {self.server!r})"


def read(text_or_path: str, *, context: str = "", cluster: str = "") -> ClusterConnection:
    """Return the cluster of a kubeconfig (its text, or a path).

    `context` and `cluster` override the file's own. Raises InputError for an invalid kubeconfig.
    """
    document, folder = _load(text_or_path)
    context_name = context or str(document.get("current-context") or "")
    entry = _named(document, "contexts", context_name).get("context") or {}
    cluster_name = cluster or str(entry.get("cluster") or "")
    where = _named(document, "clusters", cluster_name).get("cluster") or {}
    user_name = str(entry.get("user") or "")
    user = (_named(document, "users", user_name).get("user") or {}) if user_name else {}
    server = str(where.get("server") or "")
    if not server:
        raise InputError(f"cluster {cluster_name!r} of the kubeconfig has no server", remedy=_REMEDY)
    return ClusterConnection(
        name=cluster_name,
        server=server.rstrip("/"),
        ca=_material(where, "certificate-authority", folder),
        client_certificate=_material(user, "client-certificate", folder),
        client_key=_material(user, "client-key", folder),
        token=str(user.get("token") or ""),
        namespace=str(entry.get("namespace") or ""),
        uses_command=bool(user.get("exec") or user.get("auth-provider")),
    )


def _load(text_or_path: str) -> tuple[Mapping[str, Any], Path]:
    folder = Path.cwd()
    text = text_or_path
    if "\n" not in text and not text.lstrip().startswith("{"):
        path = Path(text).expanduser()
        try:
            text, folder = path.read_text(encoding="utf-8"), path.parent
        except OSError as error:
            raise InputError(
                f"the kubeconfig {path} cannot be read: {error.strerror}", remedy=_REMEDY
            ) from None
    try:
        document = YAML(typ="safe").load(text)
    except YAMLError:
        # The parser's message would contain the text, and with it credentials.
        raise InputError("the kubeconfig is not valid YAML", remedy=_REMEDY) from None
    if not isinstance(document, Mapping):
        raise InputError("the kubeconfig is not a mapping", remedy=_REMEDY)
    return document, folder


def _named(document: Mapping[str, Any], part: str, name: str) -> Mapping[str, Any]:
    for entry in document.get(part) or ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            return entry
    raise InputError(f"the kubeconfig has no entry {name!r} under {part!r}", remedy=_REMEDY)


def _material(entry: Mapping[str, Any], key: str, folder: Path) -> str:
    """Return a certificate or key, given as base64 in the file or as a path beside it."""
    data = entry.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            # The emulated EKS returns a placeholder, which fails only on connection.
            return ""
    path = entry.get(key)
    if not path:
        return ""
    try:
        return (folder / str(path)).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{key} {path} of the kubeconfig cannot be read: {error.strerror}", remedy=_REMEDY
        ) from None
