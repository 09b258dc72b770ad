"""The root file system that all hosts start from: a minimal Debian with systemd, sshd and Python."""

from __future__ import annotations

import os
from pathlib import Path

from gpufleet.lab.rack.cache import Say, cached
from gpufleet.lab.rack.needs import KEYRING
from gpufleet.lab.rack.shell import run

SUITE = "bookworm"
# Another mirror than mmdebstrap's own default, for a machine that reaches no other.
MIRROR_VARIABLE = "GPUFLEET_RACK_MIRROR"

# What a server installation has and a minimal one lacks, as far as roles meet it. Without libpam-systemd,
# which starts and ends a session of logind's for each login: a run is many.
_INCLUDED = (
    "systemd systemd-sysv dbus udev openssh-server sudo python3 python3-apt iproute2 iputils-ping procps "
    "kmod ca-certificates less"
)
# What packages that roles install depend on, and no role names: each host would unpack it again.
_LIBRARIES = (
    "libicu72 libnftables1 libonig5 libjq1 libldap-2.5-0 libsasl2-modules-db liblua5.1-0 libhwloc15 "
    "libevent-core-2.1-7 libnfsidmap1 libyaml-0-2 libnuma1 libjansson4 libpci3 pci.ids libmpfr6 "
    "libsigsegv2 libnl-3-200 libnl-route-3-200 libibverbs1 librdmacm1 libinih1 liburcu8 libmariadb3 "
    "mariadb-common mysql-common libaio1 liburing2 libncurses6 libpopt0 gawk libdbi-perl "
    "libconfig-inifiles-perl galera-4 mariadb-client-core mariadb-server-core lsof psmisc"
)
_DPKG = (
    # Overlays are thrown away with the rack: nothing is gained by waiting for the disk.
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
)
_SSHD = "PasswordAuthentication no\nPermitRootLogin no\nHostKey /etc/ssh/ssh_host_ed25519_key\n"
# systemd runs all of them each time it reads its units again, as most packages ask for; what these look for
# (consoles, encrypted disks, a command line of the kernel's) no container has.
_GENERATORS = (
    "cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update veritysetup"
)
_GENERATOR = "/etc/systemd/system-generators/systemd-$name-generator"
# Each runs in the new root. Host keys and the machine's id are of a host, not of the root.
_CUSTOMIZE = (
    "systemctl enable systemd-networkd.service",
    # Who logs in gets no manager of units of his own: he has none, and each login would wait for its start.
    "systemctl mask user@.service",
    # They would take apt's lock at a moment of their own choosing.
    "systemctl disable apt-daily.timer apt-daily-upgrade.timer",
    "rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub /etc/hostname",
    # Nobody is there to be asked about packages before they are installed.
    "rm -f /etc/apt/apt.conf.d/99mmdebstrap /etc/apt/apt.conf.d/70debconf",
    "mkdir -p /etc/systemd/system-generators",
    f"for name in {_GENERATORS}; do ln -s /dev/null {_GENERATOR}; done",
    f"printf '%s' '{_SSHD}' >/etc/ssh/sshd_config.d/10-rack.conf",
)


def base(cache: Path, say: Say) -> Path:
    """The root file system, made when the cache has none of this recipe (about a minute)."""
    command = _command()

    def make(folder: Path) -> None:
        say("making the hosts' root file system (once)")
        # mmdebstrap mounts /proc in it. If a process in there is slow to end, that mount would stay for ever,
        # and who copies the cache would copy the machine's memory with it.
        alone: list[str | Path] = ["unshare", "--mount", "--", *command, SUITE, folder / "root", *_mirror()]
        run(alone, what="the hosts' root file system")

    return cached(cache, "base", repr(command), make) / "root"


def _mirror() -> list[str]:
    mirror = os.environ.get(MIRROR_VARIABLE)
    return [mirror] if mirror else []


def _command() -> list[str]:
    return [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--keyring={KEYRING}",
        f"--include={','.join([*_INCLUDED.split(), *_LIBRARIES.split()])}",
        *(f"--dpkgopt={option}" for option in _DPKG),
        '--aptopt=Acquire::Languages "none"',
        *(f"--customize-hook=chroot \"$1\" sh -euc '{_quoted(step)}'" for step in _CUSTOMIZE),
    ]


def _quoted(step: str) -> str:
    return step.replace("'", "'\"'\"'")
