"""What belongs into the files of a checkout, so that everybody uses the same backend and key."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from gpufleet.account.backend_settings import BackendSettings
from gpufleet.engine.project_file import read_project_file
from gpufleet.errors import InputError
from gpufleet.files import write_atomically

_BACKEND = re.compile(r"^backend:.*(\n[ \t]+.*)*\n?", re.MULTILINE)


class ProjectFiles(Struct, frozen=True):
    """The files of a checkout that name the backend (`Pulumi.yaml`) and the key (`Pulumi.<env>.yaml`)."""

    root: Path
    environment: str

    @property
    def project(self) -> Path:
        """The project file."""
        return self.root / "Pulumi.yaml"

    @property
    def stack(self) -> Path:
        """The stack's settings file, which only the Pulumi CLI writes."""
        folder = str(self._project().get("stackConfigDir") or "")
        return self.root / folder / f"Pulumi.{self.environment}.yaml"

    @property
    def project_name(self) -> str:
        """The name of the project."""
        return str(self._project().get("name") or "")

    @property
    def url(self) -> str:
        """The backend in the project file; empty without one."""
        backend = self._project().get("backend")
        return str(backend.get("url") or "") if isinstance(backend, dict) else ""

    @property
    def secrets_provider(self) -> str:
        """The secrets provider in the stack's settings; `passphrase` for one with a salt, empty without."""
        if not self.stack.is_file():
            return ""
        settings = read_project_file(self.stack, remedy="see `pulumi config`", within=self.root)
        return str(
            settings.get("secretsprovider") or ("passphrase" if settings.get("encryptionsalt") else "")
        )

    def write_url(self, url: str) -> bool:
        """Write the backend into the project file; return whether that changed it. Comments stay.

        Raises InputError if it names another backend: moving a state is a decision.
        """
        have = self.url
        if have == url:
            return False
        if have:
            raise InputError(
                f"{self.project.name} has the backend {have}, not {url}",
                remedy=f"to move the state: `pulumi stack export -s {self.environment} --file "
                f"{self.environment}.json`, change backend.url, `gpufleet backend create "
                f"{self.environment}`, `pulumi stack import -s {self.environment} --file "
                f"{self.environment}.json`",
            )
        text = self.project.read_text(encoding="utf-8")
        text = _BACKEND.sub("", text)
        ending = "" if text.endswith("\n") else "\n"
        write_atomically(self.project, f"{text}{ending}backend:\n  url: {url}\n")
        return True

    def _project(self) -> dict[str, object]:
        return read_project_file(self.project, remedy="write `runtime: python`", within=self.root)


def commands(settings: BackendSettings, environment: str) -> list[str]:
    """Return the commands that initialise the stack with the Pulumi CLI."""
    return [
        f"pulumi login '{settings.url}'",
        f"pulumi stack init {environment} --secrets-provider '{settings.secrets_provider}'",
    ]
