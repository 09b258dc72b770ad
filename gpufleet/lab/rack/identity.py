"""The identity of a host: name, machine id, address, ssh host key, and Ansible's login user.

It is written into the host's own layer before the first boot, so that all hosts share one root file system.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from msgspec import Struct

from gpufleet.files import write_atomically
from gpufleet.lab.rack.base import SUITE
from gpufleet.lab.rack.model import PACKAGES_HOST, RackHost, RackSite
from gpufleet.lab.rack.packages import KEY
from gpufleet.lab.rack.shell import run

_USER_ID = 1000
# Connection timeout of a host. A running one answers at once, even on a busy machine.
_CONNECT_S = 10
_KEY_FILE = "ssh_host_ed25519_key"


class Keys(Struct, frozen=True):
    """The ssh keys of a rack in a folder: one for logins, one for each host."""

    folder: Path

    @property
    def login(self) -> Path:
        """Return the private key for logins to every host."""
        return self.folder / "login"

    def host(self, name: str) -> Path:
        """Return the private key of a host's sshd."""
        return self.folder / f"host-{name}"

    def make(self, site: RackSite) -> None:
        """Create all keys; the private ones are readable only by their owner."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.login, *(self.host(host.name) for host in site.hosts)):
            command: list[str | Path] = [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                path.name,
                "-f",
                path,
            ]
            run(command, what="making ssh keys")


def write_identity(
    upper: Path, root: Path, site: RackSite, host: RackHost, keys: Keys, repository: Path
) -> None:
    """Fill the empty layer `upper` of `host`; `root` is the file system below it."""
    _write(upper / "etc/hostname", host.name + "\n")
    _write(upper / "etc/machine-id", uuid.uuid4().hex + "\n", 0o444)
    _write(upper / "etc/hosts", hosts_file(site))
    _write(upper / "etc/resolv.conf", "# No name server: every name of the rack is in /etc/hosts.\n")
    _write(upper / "etc/systemd/network/10-rack.network", _network(site, host))
    _copy(keys.host(host.name), upper / "etc/ssh" / _KEY_FILE, 0o600)
    _copy(keys.host(host.name).with_suffix(".pub"), upper / "etc/ssh" / f"{_KEY_FILE}.pub", 0o644)
    if site.ssh_port != 22:
        _write(upper / "etc/ssh/sshd_config.d/20-port.conf", f"Port {site.ssh_port}\n")
    _copy(repository / KEY, upper / "usr/share/keyrings/rack.gpg", 0o644)
    # Packages of vendors in a site's mirror are signed by a key that apt trusts for all repositories.
    _copy(repository / KEY, upper / "etc/apt/trusted.gpg.d/rack.gpg", 0o644)
    _write(upper / "etc/apt/sources.list", _sources())
    _login_user(upper, root, site.ssh_user, keys)


def hosts_file(site: RackSite) -> str:
    """Return /etc/hosts, the same on every host, with the names of the inventory."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"{site.gateway} {PACKAGES_HOST}"]
    lines += [f"{host.ip} {' '.join(host.names)}" for host in site.hosts]
    return "\n".join(lines) + "\n"


def _sources() -> str:
    return f"deb [signed-by=/usr/share/keyrings/rack.gpg] http://{PACKAGES_HOST}/debian {SUITE} main\n"


def _network(site: RackSite, host: RackHost) -> str:
    return (
        f"[Match]\nName=host0\n\n[Network]\nAddress={host.ip}/{site.prefix}\nGateway={site.gateway}\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\nLLDP=no\n"
    )


def _login_user(upper: Path, root: Path, user: str, keys: Keys) -> None:
    home = "root" if user == "root" else f"home/{user}"
    if user != "root":
        entries = {
            "passwd": (f"{user}:x:{_USER_ID}:{_USER_ID}:{user}:/home/{user}:/bin/bash\n", 0o644),
            # No password: only the key logs in.
            "shadow": (f"{user}:*:20000:0:99999:7:::\n", 0o640),
            "group": (f"{user}:x:{_USER_ID}:\n", 0o644),
            "gshadow": (f"{user}:!::\n", 0o640),
        }
        for name, (line, mode) in entries.items():
            below = root / "etc" / name
            path = upper / "etc" / name
            _write(path, below.read_text(encoding="utf-8") + line, mode)
            shutil.chown(path, 0, below.stat().st_gid)
        _write(upper / "etc/sudoers.d/rack", f"{user} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    else:
        _write(upper / "etc/ssh/sshd_config.d/05-root.conf", "PermitRootLogin prohibit-password\n")
    _copy(keys.login.with_suffix(".pub"), upper / home / ".ssh/authorized_keys", 0o600)
    (upper / home / ".ssh").chmod(0o700)
    if user != "root":
        for path in (upper / home, upper / home / ".ssh", upper / home / ".ssh/authorized_keys"):
            shutil.chown(path, _USER_ID, _USER_ID)
    else:
        (upper / home).chmod(0o700)


def write_ssh_files(folder: Path, site: RackSite, keys: Keys, pid: int) -> None:
    """Write `ssh_config` and `known_hosts` in `folder`: hosts by every name, through the rack's network.

    Host keys are checked only against the file with the created keys.
    """
    known = []
    lines = []
    for host in site.hosts:
        kind, key = keys.host(host.name).with_suffix(".pub").read_text(encoding="utf-8").split()[:2]
        names = [*host.names, host.ip]
        if site.ssh_port != 22:
            # For look-ups without an alias, such as key checks before ssh.
            names += [f"[{name}]:{site.ssh_port}" for name in names]
        known.append(f"{','.join(names)} {kind} {key}\n")
        lines += [
            f"Host {' '.join((*host.names, host.ip))}",
            f"  HostName {host.ip}",
            f"  HostKeyAlias {host.address}",
        ]
    # -F passes the connected socket to ssh: no process stays in between. ssh's own timeout does not apply to
    # a proxy command: without this one, a host with an unplugged cable may take the kernel's two minutes.
    proxy = f"nsenter --net=/proc/{pid}/ns/net nc -w {_CONNECT_S} -F %h %p"
    lines += [
        "Host *",
        f"  User {site.ssh_user}",
        f"  Port {site.ssh_port}",
        f"  IdentityFile {keys.login}",
        "  IdentitiesOnly yes",
        "  IdentityAgent none",
        f"  UserKnownHostsFile {folder / 'known_hosts'}",
        "  GlobalKnownHostsFile none",
        "  StrictHostKeyChecking yes",
        "  UpdateHostKeys no",
        "  PasswordAuthentication no",
        # All traffic stays on this machine, and OpenSSH's default, which resists quantum computers, takes 75
        # ms of a processor per connection.
        "  KexAlgorithms curve25519-sha256",
        f"  ProxyCommand {proxy}",
        "  ProxyUseFdpass yes",
    ]
    write_atomically(folder / "known_hosts", "".join(known), mode=0o644)
    write_atomically(folder / "ssh_config", "\n".join(lines) + "\n", mode=0o600)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _copy(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    shutil.copyfile(source, target)
    target.chmod(mode)
