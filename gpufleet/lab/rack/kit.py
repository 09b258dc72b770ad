"""A kit of stand-ins: the hardware of a rack's hosts, and the vendor's packages for it.

A kit is a folder with four programs, which run with this Python. They define the hardware, not this module.

- `build_vendor.py OUT` writes the vendor's packages as .deb files into OUT; its sources are in `vendor/`.
- `build_layer.py OUT` writes the layer above the distribution in every host's root file system; its sources
  are in `hardware/`.
- `build_kubernetes.py OUT MINOR...` writes what racks with Kubernetes have besides: `layer/`, `packages/`,
  `registry/` (container images) and `charts/`; its sources are in `cluster/`.
- `describe.py OUT` reads the site as JSON from its standard input and writes a folder for each host, which
  that host has as /srv/hardware.
"""

from __future__ import annotations

import hashlib
import sys
from importlib.resources import files
from pathlib import Path

import msgspec

from gpufleet.lab.rack.cache import OnStep, cached
from gpufleet.lab.rack.model import RackSite
from gpufleet.lab.rack.shell import run

_BUILD_S = 3600.0


class Kit(msgspec.Struct, frozen=True):
    """The kit in `folder`. `minors` of Kubernetes are served besides that of a rack's fleet file."""

    folder: Path
    minors: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: Path, minors: tuple[str, ...] = ()) -> Kit | None:
        """Return the kit of a checkout, if it has one."""
        folder = root / "tests" / "rack" / "kit"
        return cls(folder, minors) if (folder / "describe.py").is_file() else None

    def vendor(self, cache: Path, on_step: OnStep) -> Path:
        """Return the vendor's packages, built again if the kit has changed."""

        def make(out: Path) -> None:
            on_step("building the vendor's packages (once)")
            self._run("build_vendor.py", out)

        return cached(cache, "vendor", self._stamp("build_vendor.py", "vendor"), make)

    def layer(self, cache: Path) -> Path:
        """Return the layer above the hosts' root file system, built again if the kit has changed."""
        stamp = self._stamp("build_layer.py", "hardware")
        return cached(cache, "layer", stamp, lambda out: self._run("build_layer.py", out))

    def kubernetes(self, minor: str, cache: Path, on_step: OnStep) -> Path:
        """Return the parts of Kubernetes, built again if the kit has changed (ten minutes or more)."""
        minors = sorted({minor, *self.minors})

        def make(out: Path) -> None:
            what = " and ".join(minors)
            on_step(f"building Kubernetes {what} from its sources (once; ten minutes on two processors)")
            self._run("build_kubernetes.py", out, *minors)

        # The programs that a cluster needs, and how they are built, are beside the tests of Kubernetes.
        tests = self.folder.parents[1]
        names = ("build.py", "charts.py", "cluster_programs.py", "programs", "releases")
        sources = [tests / "go_programs.py", *(tests / "kube" / name for name in names)]
        listed = hashlib.sha256((files("gpufleet.catalog") / "data" / "images.json").read_bytes()).hexdigest()
        stamp = " ".join([self._stamp("build_kubernetes.py", "cluster", "vendor", *sources), listed, *minors])
        return cached(cache, "kubernetes", stamp, make)

    def describe(self, site: RackSite, out: Path) -> None:
        """Write the hardware of every host of `site`, a folder each in `out`."""
        out.mkdir(mode=0o755)
        self._run("describe.py", out, stdin=msgspec.json.encode(site).decode())

    def _run(self, program: str, out: Path, *words: str, stdin: str | None = None) -> None:
        command: list[str | Path] = [sys.executable, self.folder / program, out, *words]
        run(command, what=f"the kit's {program}", stdin=stdin, timeout_s=_BUILD_S)

    def _stamp(self, *parts: str | Path) -> str:
        """Return a hash of files and folders; paths are those in the kit."""
        digest = hashlib.sha256()
        for part in (self.folder / name for name in parts):
            for path in sorted(part.rglob("*")) if part.is_dir() else (part,):
                if path.is_file() and "__pycache__" not in path.parts:
                    where = path.relative_to(self.folder.parents[1])
                    digest.update(f"{where}\0{path.stat().st_mode:o}\0".encode())
                    digest.update(path.read_bytes())
        return digest.hexdigest()
