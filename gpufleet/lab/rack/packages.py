"""The package repository of racks: Debian's packages, downloaded once, and a vendor's.

Both are indexed and signed with a key that is created for it and discarded, so that hosts install from it as
from any mirror: over HTTP, with apt's checks.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from gpufleet.lab.rack.base import SUITE
from gpufleet.lab.rack.cache import OnStep, cached
from gpufleet.lab.rack.needs import KEYRING
from gpufleet.lab.rack.shell import run

KEY = "key.gpg"
# The paths of NVIDIA's own repositories, for roles that only replace the server's name.
_VENDOR_PATHS = (
    *(f"compute/cuda/repos/{name}/x86_64" for name in ("debian12", "ubuntu2204", "ubuntu2404")),
    "libnvidia-container/stable/deb/amd64",
)
_WHO = "gpufleet rack <rack@invalid>"


def wanted() -> str:
    """Return the names of the packages that hosts may install, one downloadable set per line."""
    return (files(__package__) / "packages.txt").read_text(encoding="utf-8")


def repository(
    cache: Path, root: Path, vendor: Path | None, on_step: OnStep, cluster: Path | None = None
) -> Path:
    """Return a folder to serve: `debian/`, `vendor/` and the public key (`key.gpg`, `key.asc`).

    `root` is the hosts' root file system (its packages need no download), `vendor` a folder of .deb files,
    `cluster` what the kit has for Kubernetes: more packages, `charts/`, and images at `v2/`. The result is
    cached by its inputs.
    """
    pool = cached(cache, "debian", wanted() + root.parent.name, lambda new: _download(new, root, on_step))
    # Increase the number if the result for the same packages changes.
    recipe = f"4 {pool.name} {vendor.name if vendor else ''} {cluster.name if cluster else ''}"

    def make(folder: Path) -> None:
        _index_debian(folder / "debian", pool)
        (folder / "vendor").mkdir()
        # What the kit has for Kubernetes takes the place of a vendor's package of the same name and version.
        found: dict[str, Path] = {}
        for source in (vendor, cluster / "packages" if cluster else None):
            found |= {package.name: package for package in source.glob("*.deb")} if source else {}
        for name, package in sorted(found.items()):
            _hard_link(package, folder / "vendor" / name)
        if cluster:
            # Relative: a cache may be moved, or copied to another home.
            beside = Path(os.path.relpath(cluster, folder))
            (folder / "charts").symlink_to(beside / "charts")
            (folder / "v2").symlink_to(beside / "registry" / "v2")
        _index_flat(folder / "vendor")
        _sign(folder, ["debian/dists/" + SUITE, "vendor"])
        for path in _VENDOR_PATHS:
            link = folder / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(*[".."] * path.count("/"), "vendor"))

    return cached(cache, "repository", recipe, make)


def _download(pool: Path, root: Path, on_step: OnStep) -> None:
    on_step("downloading the packages that hosts install (once)")
    with tempfile.TemporaryDirectory(prefix="gpufleet-apt-") as name:
        folder = Path(name)
        config = _apt_config(folder, root, pool)
        apt = {"APT_CONFIG": str(config), "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "-qq", "update"], what="the package lists", env=apt)
        for line in wanted().splitlines():
            names = line.split("#")[0].split()
            if names:
                command = ["apt-get", "-qq", "--yes", "--download-only", "--reinstall", "install", *names]
                run(command, what="downloading packages", env=apt, timeout_s=1800)
    shutil.rmtree(pool / "partial", ignore_errors=True)
    (pool / "lock").unlink(missing_ok=True)


def _apt_config(folder: Path, root: Path, pool: Path) -> Path:
    """Return a separate apt configuration: packages of `root` are installed, downloads go to `pool`."""
    for part in ("etc/preferences.d", "etc/apt.conf.d", "state/lists/partial", "cache"):
        (folder / part).mkdir(parents=True)
    (pool / "partial").mkdir()
    sources = (root / "etc/apt/sources.list").read_text(encoding="utf-8")
    signed = sources.replace("deb ", f"deb [signed-by={KEYRING}] ")
    (folder / "etc/sources.list").write_text(signed, encoding="utf-8")
    settings = {
        "Dir": folder,
        "Dir::Etc": folder / "etc",
        "Dir::State": folder / "state",
        "Dir::State::status": root / "var/lib/dpkg/status",
        "Dir::Cache": folder / "cache",
        "Dir::Cache::archives": pool,
        "Acquire::Languages": "none",
        # Downloads go into a folder that only root may enter.
        "APT::Sandbox::User": "root",
    }
    config = folder / "apt.conf"
    config.write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()), encoding="utf-8")
    return config


def _index_debian(folder: Path, pool: Path) -> None:
    architecture = run(["dpkg", "--print-architecture"], what="the architecture").strip()
    here = folder / "pool"
    here.mkdir(parents=True)
    for package in sorted(pool.glob("*.deb")):
        # apt writes an epoch's colon as %3a, which a URL decodes to a colon.
        _hard_link(package, here / package.name.replace("%3a", "-"))
    release = folder / "dists" / SUITE
    index = release / "main" / f"binary-{architecture}"
    index.mkdir(parents=True)
    text = run(["apt-ftparchive", "packages", "pool"], what="the package index", cwd=folder)
    _write_index(index / "Packages", text)
    described = {"Codename": SUITE, "Components": "main", "Architectures": architecture}
    _write_release(release, described)


def _index_flat(folder: Path) -> None:
    text = run(["apt-ftparchive", "packages", "."], what="the vendor's package index", cwd=folder)
    _write_index(folder / "Packages", text)
    _write_release(folder, {"Codename": "vendor"})


def _write_index(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.with_name("Packages.gz").write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


def _write_release(folder: Path, described: dict[str, str]) -> None:
    fields = {"Origin": "gpufleet-rack", "Label": "gpufleet-rack", "Suite": described["Codename"]} | described
    options = [f"-oAPT::FTPArchive::Release::{key}={value}" for key, value in fields.items()]
    text = run(["apt-ftparchive", *options, "release", "."], what="the repository's index", cwd=folder)
    (folder / "Release").write_text(text, encoding="utf-8")


def _sign(folder: Path, releases: list[str]) -> None:
    """Sign each Release file as InRelease, and write the public key to `folder`."""
    # In a folder with a short name, since gpg's agent has its socket there.
    with tempfile.TemporaryDirectory(prefix="gpg-") as name:
        home = {"GNUPGHOME": name}
        gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        try:
            run(
                [*gpg, "--quick-generate-key", _WHO, "ed25519", "sign", "never"],
                what="a signing key",
                env=home,
            )
            for release in releases:
                path = folder / release
                command: list[str | Path] = [
                    *gpg,
                    "--clearsign",
                    "--output",
                    path / "InRelease",
                    path / "Release",
                ]
                run(command, what="signing the repository", env=home)
            for name, form in ((KEY, ["--export"]), ("key.asc", ["--armor", "--export"])):
                run([*gpg, "--output", folder / name, *form], what="exporting the key", env=home)
                _hard_link(folder / name, folder / "vendor" / name)
        finally:
            run(["gpgconf", "--kill", "all"], what="ending gpg's agent", env=home)


def _hard_link(source: Path, target: Path) -> None:
    """Link a file to a place that is free, or copy it. Raises FileExistsError: a copy would change both."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)
