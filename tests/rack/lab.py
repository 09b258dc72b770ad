"""A rack for tests: hosts, playbooks, faults, and resets to a clean state."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.checks import validate
from gpufleet.files import user_cache
from gpufleet.lab.rack import Kit, Rack, RackSite, rack_site, start_rack, take_down
from gpufleet.plan import build_plan
from gpufleet.racks.configure.record import RunFolder
from gpufleet.racks.configure.transport import transport_environment
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.inventory_text import render
from gpufleet.racks.operations.registry import OPERATIONS
from gpufleet.racks.runner import OnTask, PlaybookResult, PlaybookRun, run_playbook
from tests import warm_ansible
from tests.conftest import Checkout
from tests.rack.entering import enter_command
from tests.rack.hardware import Hardware

ROOT = Path(__file__).resolve().parents[2]
CACHE = user_cache("rack")
FLEET = ROOT / "gpufleet" / "lab" / "rack" / "fleet.yaml"
VENDOR_URL = "http://packages.rack/vendor"
KEY = "/usr/share/keyrings/rack.gpg"
# A container has the uptime of this machine, so slurmctld does not see that it has booted: `-b` reports a
# boot at the start of slurmd.
BOOTED = "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D -s -b $SLURMD_OPTIONS\n"


def fleet_text(*, gpu_nodes: int = 4, controllers: int = 2, login: bool = True, more: str = "") -> str:
    """The rack's fleet file with other host counts; `more` is added to the site."""
    text = FLEET.read_text()
    text = text.replace("dgx[01-04]", f"dgx[01-{gpu_nodes:02d}]")
    text = text.replace("ctl[01-02]", f"ctl[01-{controllers:02d}]" if controllers > 1 else "ctl01")
    if not login:
        text = text.replace("    login: login01\n", "")
    # The site has what tests do not declare: its Slurm settings, but no users.
    replaced = ("    users:", *(("    slurm:",) if "    slurm:" in more else ()))
    text = "".join(line for line in text.splitlines(True) if not line.startswith(replaced))
    return text.replace("    scheduler: slurm\n", f"    scheduler: slurm\n{more}")


def plan_fleet(file: Path, outputs: Mapping[str, Any] | None = None) -> tuple[RackSite, str]:
    """The rack site of a fleet file, and its inventory as `gpufleet inventory` writes it with the outputs of
    the stack."""
    validated = validate(str(file), root=ROOT)
    plan = build_plan(validated.loaded.spec, validated.catalog)
    return rack_site(plan), render(build_inventory(plan, validated.catalog, outputs))


def share_cache(checkout: Checkout) -> None:
    """Let a checkout with a HOME of its own use this user's cache: a rack's files would be built again."""
    CACHE.mkdir(parents=True, exist_ok=True)
    cache = Path(checkout.env["HOME"], ".cache", "gpufleet")
    cache.mkdir(parents=True)
    (cache / CACHE.name).symlink_to(CACHE)


def need_no_disk(checkout: Path) -> None:
    """Let runs of the rack's environment in a checkout accept hosts with little free space: that of this
    machine."""
    for name in ("", *(name for name, operation in OPERATIONS.items() if operation.preflight)):
        folder = RunFolder(checkout / ".gpufleet", "rack-sandbox", name).path / "group_vars"
        folder.mkdir(parents=True)
        (folder / "all.yml").write_text("preflight_min_free_gib: { /: 0.1 }\n")


@dataclass
class Lab:
    """A running rack with its inventory."""

    rack: Rack
    inventory: Path
    healthy: dict[str, dict[str, Any]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    """Hosts on which something has run since this was last cleared."""

    @classmethod
    def up(cls, folder: Path, fleet: str | None = None, minors: tuple[str, ...] = ()) -> Lab:
        """Start the rack of a fleet file's text with its files in `folder`.

        `minors` of Kubernetes are served besides that of the fleet file.
        """
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "fleet.yaml"
        file.write_text(fleet or fleet_text())
        site, inventory = plan_fleet(file)
        rack = start_rack(folder / "rack", site, CACHE, Kit.of(ROOT, minors))
        written = folder / "inventory.yml"
        written.write_text(inventory)
        made = cls(rack, written)
        made.healthy = {host.name: made.hardware(host.name).state() for host in site.hosts}
        return made

    def down(self) -> None:
        """Remove the rack."""
        take_down(self.rack.layout.root)

    def names(self, role: str) -> list[str]:
        """The hosts of a role: controller, login or gpu."""
        return [host.name for host in self.rack.site.hosts if host.role == role]

    def sh(self, host: str, script: str, *, code: int | None = 0, timeout_s: float = 300) -> str:
        """Run a script as root on a host; its output. Asserts the exit code unless that is None."""
        self.touched.add(host)
        done = subprocess.run(
            enter_command(self.rack, host, "bash", "-se")
            or self.rack.ssh_command(host, "sudo", "bash", "-se"),
            input=script,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        reported = f"{host}: exit code {done.returncode}\n{script}\n{done.stdout}\n{done.stderr}"
        assert code is None or done.returncode == code, reported
        return done.stdout

    def hardware(self, host: str) -> Hardware:
        """The hardware of a host."""
        self.touched.add(host)
        return Hardware(self.rack.layout.hardware(self.rack.site.host(host).name))

    def add_vendor_repository(self, *hosts: str) -> None:
        """Add the vendor's package repository to hosts, as an administrator would."""
        line = f"deb [signed-by={KEY}] {VENDOR_URL} ./"
        for host in hosts:
            self.sh(host, f"echo '{line}' >/etc/apt/sources.list.d/vendor.list; apt-get -qq update")

    def seal(self, name: str) -> None:
        """Snapshot the state of all hosts under a name, including their disks."""
        self.rack.stop()
        for host in self.healthy:
            self.hardware(host).keep(self._kept(name, host))
        self.rack.seal(name)

    def reset(self, *hosts: str, name: str = "identity") -> None:
        """Reset hosts (default: all) to `seal(name)`, with their hardware at that time."""
        self.rack.stop(*hosts, force=True)
        for host in hosts or tuple(self.healthy):
            if name == "identity":
                self.hardware(host).restore(self.healthy[host])
            else:
                self.hardware(host).bring_back(self._kept(name, host))
        self.rack.repository(on=True)
        self.rack.restore(*hosts, name=name)

    def _kept(self, name: str, host: str) -> Path:
        return self.rack.layout.root / "kept" / name / host

    def run(
        self,
        playbook: str,
        *,
        project: Path = ROOT / "ansible",
        variables: Mapping[str, Any] | None = None,
        on_task: OnTask | None = None,
        **options: Any,
    ) -> PlaybookResult:
        """Run a playbook of `ansible/` (or of `project`) on the rack; raises nothing for failed hosts.

        Tasks are sent as by `gpufleet configure`, unless another `transport` is given.
        """
        self.touched.update(self.healthy)
        transport = transport_environment(options.pop("transport", "auto"))
        environment = self.rack.environment() | transport | warm_ansible.environment()
        environment |= dict(options.pop("environment", {}))
        return run_playbook(
            PlaybookRun(
                project=project,
                playbook=playbook,
                inventory=self.inventory,
                variables=variables or {},
                environment=environment,
                **options,
            ),
            on_task,
        )
