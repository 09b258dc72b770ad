"""A site as users have it: a fleet file in a checkout, a rack, and `gpufleet configure`."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.racks.age import new_identity
from tests import warm_ansible
from tests.rack.lab import ROOT, Lab, need_no_disk
from tests.rack.management import SECRET, Controllers

PEOPLE = """\
    groups: [{ name: vision, gid: 5000 }]
    users:
      - { name: ada, uid: 5001, groups: [vision], teams: [research] }
      - { name: grace, uid: 5002, teams: [serving] }
    local_nvme: { mount: /raid, cache: /raid/cache }
    time_servers: [ctl01]
    storage:
      - { name: home, kind: nfs, source: "ctl01:/export/home", mount: /shared/home }
"""

BACKUPS = """\
    backups: { nfs: { source: "ctl01:/export/backups" }, keep: 3 }
"""

MONITORED = """\
    monitoring:
      interval: 5 s
      grafana: false # no package of it can be had here
      remote_write: { url: "http://127.0.0.1:9998/", username: lab }
      alerts:
        webhook: { url: "http://127.0.0.1:9999/", token: true }
        email: { to: [ops@example.com], sender: lab@example.com, server: "127.0.0.1:9997", username: lab }
    racks: [{ name: r1, nodes: "dgx[01-02]" }]
"""

_LOOKS = 5  # a second
GPUFLEET = Path(sys.executable).parent / "gpufleet"


@dataclass
class Site:
    """A rack, the checkout whose fleet file describes it, and the site's secrets."""

    lab: Lab
    checkout: Path
    secrets: dict[str, str] = field(default_factory=dict)
    controllers: Controllers | None = None
    _before: set[Path] = field(default_factory=set)

    @classmethod
    def up(
        cls,
        folder: Path,
        fleet: str,
        controllers: Controllers | None = None,
        known: dict[str, str] | None = None,
        minors: tuple[str, ...] = (),
    ) -> Site:
        """Start the rack of a fleet file's text; the checkout has this ansible/ in it.

        `controllers` are the BMCs of its nodes, if the fleet file has some; `known` are the
        site's secrets, if not those of Slurm; `minors` of Kubernetes are served besides its own.
        """
        checkout = folder / "checkout"
        (checkout / "stacks").mkdir(parents=True)
        (checkout / "Pulumi.yaml").write_text("name: gpufleet\nruntime: python\n")
        (checkout / "ansible").symlink_to(ROOT / "ansible")
        need_no_disk(checkout)
        lab = Lab.up(folder / "lab", fleet, minors)
        (checkout / "fleet.yaml").write_text(fleet)
        made = dict(known or {}) or {
            "GPUFLEET_SECRET_MUNGE_KEY_LAB": secrets.token_hex(64),
            "GPUFLEET_SECRET_DATABASE_PASSWORD_LAB": secrets.token_hex(16),
            "GPUFLEET_SECRET_BACKUP_KEY_LAB": new_identity(),
        }
        if controllers is not None:
            made[SECRET] = controllers.password
            controllers.wire(lab.rack)
        return cls(lab, checkout, made, controllers)

    def command(
        self, *words: str, verb: str = "configure", program: Sequence[str] = (str(GPUFLEET),)
    ) -> list[str]:
        """The command line of a run that does not ask."""
        config = str(self.lab.rack.record.ssh_config)
        flags = ["--ssh-config", config, "--json", *(["--yes"] if verb in ("configure", "operate") else [])]
        command = [*program, verb, str(self.checkout / "fleet.yaml"), *flags, *words]
        return command if self.controllers is None else self.controllers.command(command)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a run."""
        return os.environ | self.lab.rack.environment() | self.secrets

    def configure(self, *words: str, code: int | None = 0, verb: str = "configure") -> dict[str, Any]:
        """Run `gpufleet configure`; its JSON. Asserts the exit code unless that is None."""
        done = subprocess.run(
            self.command(*words, verb=verb, program=warm_ansible.GPUFLEET),
            env=self.environment | warm_ansible.environment(),
            cwd=self.checkout,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        reported = f"exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert code is None or done.returncode == code, reported
        return json.loads(done.stdout)

    @contextmanager
    def configuring(self, *words: str, verb: str = "configure") -> Iterator[subprocess.Popen[str]]:
        """A run in parallel; it is ended with the block."""
        self._before = self._journals()
        process = subprocess.Popen(
            self.command(*words, verb=verb),
            env=self.environment,
            cwd=self.checkout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def journal(self) -> str:
        """Task results of the current run so far."""
        return "".join(path.read_text() for path in self._journals() - self._before)

    def _journals(self) -> set[Path]:
        return set(self.checkout.glob(".gpufleet/*/**/runs/*.jsonl"))

    @staticmethod
    def changes(result: dict[str, Any]) -> set[tuple[str, str, str]]:
        """(host, role, task) of the changes of a run, also in check mode."""
        return {
            (host, change["role"], change["task"]) for change in result["changes"] for host in change["hosts"]
        }

    def wait_for_nodes(self, timeout_s: float = 600) -> None:
        """Wait until all nodes of Slurm are idle; a failure has their states and the controller's log."""
        self.lab.sh(
            "ctl01",
            f"until [ $(sinfo -h -N -t idle -o %N | sort -u | wc -l) = {len(self.lab.names('gpu'))} ]; do "
            f"[ $SECONDS -lt {timeout_s:.0f} ] || {{ sinfo -N -o '%N %T %E'; scontrol show nodes; "
            "journalctl -u slurmctld -n 50 --no-pager; exit 1; }; sleep 0.2; done",
            timeout_s=timeout_s + 60,
        )

    def run_job(self, *words: str, user: str = "ada", timeout_s: float = 600) -> int:
        """Run a batch job to its end, and return its number. A failure says what Slurm did with it."""
        submit = f"timeout {timeout_s} sbatch --parsable --wait {' '.join(words)}"
        reported = self.lab.sh(
            "login01",
            f"cd /tmp; su {user} -c '{submit}' && exit; code=$?; "
            "scontrol show jobs; sinfo -N -o '%N %T %E'; scontrol show nodes; exit $code",
            timeout_s=timeout_s + 60,
        )
        return int(reported)


class ArgumentWatcher:
    """Watches the command lines of all processes of this machine, including the rack's hosts."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word.encode() for word in words]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._read: dict[str, int] = {}
        self.looks = 0
        self.found: set[str] = set()

    def __enter__(self) -> ArgumentWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self.looks += 1
            there = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
            # New processes are read at every look. The others may become another program: every fifth.
            self._read = {name: self._read.get(name, 0) + 1 for name in there}
            due = [name for name, times in self._read.items() if times <= _LOOKS or times % _LOOKS == 0]
            for process in due:
                try:
                    line = Path("/proc", process, "cmdline").read_bytes()
                except OSError:
                    continue
                if any(word in line for word in self._words):
                    self.found.add(line.replace(b"\0", b" ").decode(errors="replace"))


@dataclass
class Runs:
    """The site, and its first three runs: check run, first run, second run.

    `broken` are the hosts that the last test has changed.
    """

    site: Site
    check: dict[str, Any]
    first: dict[str, Any]
    second: dict[str, Any]
    arguments: ArgumentWatcher
    broken: tuple[str, ...] = ()
