"""Builds a .deb from what it installs."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

LAUNCH = '#!/bin/sh\nexec /usr/bin/python3 -ES /usr/lib/hardware/{program}.py {words} "$@"\n'


@dataclass(frozen=True)
class Package:
    """A package. `files` are text, `libraries` bytes, `links` targets, `tools` programs, each by path."""

    name: str
    version: str
    depends: str = ""
    conflicts: str = ""
    provides: str = ""
    files: dict[str, str | bytes] = field(default_factory=dict)
    libraries: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)
    enabled: bool = True
    started: bool = True
    postinst: str = ""
    text: str = "stand-in of a rack in a box"


def build(package: Package, out: Path) -> Path:
    """The file of `package` in `out`."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        control = root / "DEBIAN"
        control.mkdir(mode=0o755)
        for path, text in package.files.items():
            _write(root / path, text, 0o644)
        for path, content in package.libraries.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
            (root / path).chmod(0o644)
        for path, target in package.links.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
        for path, text in package.tools.items():
            _write(root / path, text, 0o755)
        for service, text in package.services.items():
            _write(root / "usr/lib/systemd/system" / service, text, 0o644)
        (control / "control").write_text(_control(package))
        kept = [f"/{path}\n" for path in (*package.files, *package.tools) if path.startswith("etc/")]
        (control / "conffiles").write_text("".join(kept))
        scripts = _scripts(package)
        for script, text in scripts.items():
            _write(control / script, text, 0o755)
        root.chmod(0o755)
        target = out / f"{package.name}_{package.version.replace(':', '-')}_amd64.deb"
        # Not compressed: they are a few kilobytes, and there are many.
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(root), str(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return target


def launch(program: str, *words: str) -> str:
    """A program that runs one of the hardware's library."""
    return LAUNCH.format(program=program, words=" ".join(words))


def _control(package: Package) -> str:
    fields = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": "amd64",
        "Maintainer": "gpufleet rack <rack@invalid>",
        "Section": "misc",
        "Priority": "optional",
        "Depends": package.depends,
        "Conflicts": package.conflicts,
        "Replaces": package.conflicts,
        "Provides": package.provides,
        "Description": package.text,
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def _scripts(package: Package) -> dict[str, str]:
    """Services are enabled and started as dh_installsystemd does it."""
    names = " ".join(package.services)
    head = "#!/bin/sh\nset -e\n"
    scripts = {}
    start = ""
    if names:
        start = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n"
        if package.enabled:
            start += f"systemctl enable {names} >/dev/null 2>&1 || true\n"
        if package.enabled and package.started:
            restart = f"deb-systemd-invoke restart {names} >/dev/null || true"
            start += f"if [ -d /run/systemd/system ]; then {restart}; fi\n"
        gone = '[ "$1" = remove ] && [ -d /run/systemd/system ]'
        scripts["prerm"] = f"{head}if {gone}; then systemctl stop {names} || true; fi\n"
        scripts["postrm"] = f"{head}if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n"
    if start or package.postinst:
        body = f'if [ "$1" = configure ]; then\n{package.postinst}{start}:\nfi\n'
        scripts["postinst"] = head + body
    return scripts


def _write(path: Path, text: str | bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
