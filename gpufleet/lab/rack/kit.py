"""A kit of stand-ins: the hardware of a rack's hosts, and the vendor's packages for it.

A kit is a folder with three programs, which run with this Python. They define the hardware, not this module.

- `build_vendor.py OUT` writes the vendor's packages as .deb files into OUT; its sources are in `vendor/`.
- `build_layer.py OUT` writes the layer above the distribution in every host's root file system; its sources
  are in `hardware/`.
- `describe.py OUT` reads the site as JSON from its standard input and writes a folder for each host, which
  that host has as /srv/hardware.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from gpufleet.lab.rack.cache import Say, cached
from gpufleet.lab.rack.model import RackSite
from gpufleet.lab.rack.shell import run


@dataclass(frozen=True, slots=True)
class Kit:
    """The kit in `folder`."""

    folder: Path

    @classmethod
    def of(cls, root: Path) -> Kit | None:
        """Return the kit of a checkout, if it has one."""
        folder = root / "tests" / "rack" / "kit"
        return cls(folder) if (folder / "describe.py").is_file() else None

    def vendor(self, cache: Path, say: Say) -> Path:
        """Return the vendor's packages, built again if the kit has changed."""

        def make(out: Path) -> None:
            say("building the vendor's packages (once)")
            self._run("build_vendor.py", out)

        return cached(cache, "vendor", self._stamp("build_vendor.py", "vendor"), make)

    def layer(self, cache: Path) -> Path:
        """Return the layer above the hosts' root file system, built again if the kit has changed."""
        stamp = self._stamp("build_layer.py", "hardware")
        return cached(cache, "layer", stamp, lambda out: self._run("build_layer.py", out))

    def describe(self, site: RackSite, out: Path) -> None:
        """Write the hardware of every host of `site`, a folder each in `out`."""
        out.mkdir(mode=0o755)
        self._run("describe.py", out, stdin=json.dumps(site.as_dict()))

    def _run(self, program: str, out: Path, stdin: str | None = None) -> None:
        run([sys.executable, self.folder / program, out], what=f"the kit's {program}", stdin=stdin)

    def _stamp(self, program: str, parts: str) -> str:
        """Return a hash of a program and its folder."""
        digest = hashlib.sha256()
        for path in (self.folder / program, *sorted((self.folder / parts).rglob("*"))):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(self.folder)}\0{path.stat().st_mode:o}\0".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()
