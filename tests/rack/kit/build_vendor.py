"""Writes the vendor's packages as .deb files: `build_vendor.py OUT`.

Their names, versions and dependencies are those of NVIDIA's repositories for Debian and Ubuntu; what
they install are stand-ins that ask /srv/hardware. Versions are those of the software locks, an
older and a newer one beside each, so that upgrades and mismatches can be tried.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from vendor import accelerators, containers, drivers, fabric, spank  # noqa: E402
from vendor.deb import build  # noqa: E402


def main(out: Path) -> None:
    for source in (drivers, accelerators, containers, fabric, spank):
        for package in source.packages():
            build(package, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
