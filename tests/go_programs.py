"""Programs that tests build from Go modules, kept in the user's cache for all checkouts.

The key of a program is what it is built from: its module's files (go.sum has the hash of every source), its
package and its options. A program is built once; other test processes and checkouts wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gpufleet.files import user_cache
from tests.programs import run_go

CACHE = user_cache("tests")
_BUILD_TIMEOUT_S = 1800
# They are built to answer some hundred requests: without inlining, and with a compiler that collects its
# garbage only when it has much of it, a build takes half of the time (crictl: 106 processor seconds). Without
# any optimization it takes as long (117), and three idle API servers two thirds of a processor.
_QUICK = "-l -dwarf=false"
# With Go's own resolvers of hosts and users, programs with parts in C share packages with the others.
_TAGS = ("netgo", "osusergo")
_ROOMY = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}


@dataclass(frozen=True)
class GoProgram:
    """A program, the folder of the module that pins its sources, and its package.

    `flags` are those of the linker. `cgo`: it has parts in C.
    """

    name: str
    module: Path
    package: str
    flags: str = ""
    tags: tuple[str, ...] = ()
    cgo: bool = False

    @property
    def path(self) -> Path:
        """Where the program is once it was built."""
        digest = hashlib.sha256(repr((self.package, self.flags, self.tags, self.cgo, _QUICK, _TAGS)).encode())
        own = self.module / self.package
        for path in sorted({*self.module.iterdir(), *(own.iterdir() if own.is_dir() else ())}):
            if path.is_file():
                digest.update(path.name.encode() + path.read_bytes())
        folder = f"{self.module.name}-{os.uname().machine}-{digest.hexdigest()[:12]}"
        return CACHE / folder / self.name

    def built(self) -> Path:
        """The program's path; it is built first if need be."""
        path = self.path
        if path.is_file():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file():
                fresh = path.with_name(f"{path.name}.new")
                done = run_go(
                    *("build", "-trimpath", f"-gcflags=all={_QUICK}", "-ldflags", f"-s -w {self.flags}"),
                    *("-tags", ",".join(_TAGS + self.tags)),
                    *("-o", str(fresh), self.package),
                    folder=self.module,
                    timeout_s=_BUILD_TIMEOUT_S,
                    environment={**_ROOMY, **({"CGO_ENABLED": "1"} if self.cgo else {})},
                )
                assert done.returncode == 0, f"{self.package} did not build:\n{done.stderr[-3000:]}"
                fresh.replace(path)
        return path
