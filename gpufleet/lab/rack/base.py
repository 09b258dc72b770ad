"""The root file system of all hosts: a minimal Debian with systemd, sshd and Python."""

from __future__ import annotations

import os
from pathlib import Path

from gpufleet.lab.rack.cache import OnStep, cached
from gpufleet.lab.rack.needs import KEYRING
from gpufleet.lab.rack.shell import run

SUITE = "bookworm"
# The mirror that mmdebstrap uses; another one for machines without access to its default.
MIRROR_VARIABLE = "GPUFLEET_RACK_MIRROR"

# Packages of a server installation that a minimal one lacks and roles need. libpam-systemd is omitted: it
# starts and ends a logind session for each login, and a run has many.
_INCLUDED = (
    "systemd systemd-sysv dbus udev openssh-server sudo python3 python3-apt iproute2 iputils-ping procps "
    "kmod ca-certificates less"
)
# Dependencies of packages that roles install: otherwise each host would unpack them again.
_LIBRARIES = (
    "libicu72 libnftables1 libonig5 libjq1 libldap-2.5-0 libsasl2-modules-db liblua5.1-0 libhwloc15 "
    "libevent-core-2.1-7 libnfsidmap1 libyaml-0-2 libnuma1 libjansson4 libpci3 pci.ids libmpfr6 "
    "libsigsegv2 libnl-3-200 libnl-route-3-200 libibverbs1 librdmacm1 libinih1 liburcu8 libmariadb3 "
    "libevent-2.1-7 libevent-pthreads-2.1-7 libhwloc-plugins ocl-icd-libopencl1 "
    "mariadb-common mysql-common libaio1 liburing2 libncurses6 libpopt0 gawk libdbi-perl "
    "libconfig-inifiles-perl galera-4 mariadb-client-core mariadb-server-core lsof psmisc"
)
_DPKG = (
    # Overlays are deleted with the rack, so waiting for the disk is not useful.
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
)
_SSHD = "PasswordAuthentication no\nPermitRootLogin no\nHostKey /etc/ssh/ssh_host_ed25519_key\n"
# systemd runs all of them each time it reloads its units, which most packages request; they look for
# consoles, encrypted disks and kernel command lines, which containers do not have.
_GENERATORS = (
    "cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update veritysetup"
)
_GENERATOR = "/etc/systemd/system-generators/systemd-$name-generator"
# Each runs in the new root. Host keys and the machine id belong to a host, not to the root.
_CUSTOMIZE = (
    "systemctl enable systemd-networkd.service",
    # The login user has no units, so each login would only wait for the start of a user manager.
    "systemctl mask user@.service",
    # They would take apt's lock at any time.
    "systemctl disable apt-daily.timer apt-daily-upgrade.timer",
    "rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub /etc/hostname",
    # There is no user to answer questions of package installations.
    "rm -f /etc/apt/apt.conf.d/99mmdebstrap /etc/apt/apt.conf.d/70debconf",
    "mkdir -p /etc/systemd/system-generators",
    f"for name in {_GENERATORS}; do ln -s /dev/null {_GENERATOR}; done",
    f"printf '%s' '{_SSHD}' >/etc/ssh/sshd_config.d/10-rack.conf",
)


def base(cache: Path, on_step: OnStep) -> Path:
    """Return the root file system; create it if the cache has none of this recipe (about a minute)."""
    command = _command()

    def make(folder: Path) -> None:
        on_step("making the hosts' root file system (once)")
        # mmdebstrap mounts /proc in it. If a process in it ends slowly, that mount would stay, and a copy of
        # the cache would include the machine's memory.
        isolated: list[str | Path] = [
            "unshare",
            "--mount",
            "--",
            *command,
            SUITE,
            folder / "root",
            *_mirror(),
        ]
        run(isolated, what="the hosts' root file system")

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
