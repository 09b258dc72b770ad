"""One build of an image: what the plan and the stack say of it, and its steps."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gpufleet.account.image_builder import (
    BASE_TAG,
    TYPES,
    BaseImage,
    Pauses,
    builder,
    builders,
    find_base,
    host_keys,
    make_image,
    place_of,
)
from gpufleet.cli.account import stack_session
from gpufleet.cli.configure_progress import HostProgress
from gpufleet.cli.configure_setup import Setup
from gpufleet.cli.console import err
from gpufleet.cli.waiting import waiting
from gpufleet.errors import InputError, RefusedError
from gpufleet.plan.cloud_slurm import node_prefix
from gpufleet.plan.images import locked_image, neuron_image
from gpufleet.plan.marks import lasting_tags
from gpufleet.plan.models import CloudSitePlan, NodeGroupPlan
from gpufleet.racks.image_host import ImageHost, configure_image, new_key
from gpufleet.racks.project import ansible_project
from gpufleet.racks.server_access import session_variables


@dataclass(frozen=True, kw_only=True)
class Build:
    """A build. `base`, `site`, `group` and `instance_type` may be empty: each has a default."""

    environment: str
    site: str = ""
    group: str = ""
    base: str = ""
    user: str = "ubuntu"
    direct: bool = False
    discard: bool = False
    instance_type: str = ""
    ssh_config: Path | None = None
    quiet: bool = False
    pauses: Pauses = field(default_factory=Pauses)
    started: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    @cached_property
    def setup(self) -> Setup:
        """The environment. Raises InputError if its instances are emulated."""
        made = Setup(self.environment, "", "", (), self.ssh_config)
        name = made.plan.environment
        if made.workspace.cloud(name, None) == "sandbox":
            raise InputError(
                f"{name} is in the sandbox: its instances are emulated, and accept no connection",
                remedy="build in an environment with a real account",
            )
        return made

    @cached_property
    def cloud_site(self) -> CloudSitePlan:
        """The site. Raises InputError if the fleet has not exactly one that is meant."""
        launched = [each for each in self.setup.plan.cloud if each.slurm is not None]
        found = [each for each in launched if self.site in ("", each.site)]
        if len(found) != 1:
            names = ", ".join(each.site for each in launched) or "none"
            raise InputError(
                f"--site {self.site!r} does not name one of the sites whose nodes Slurm launches: {names}",
                remedy="name one of them; a cloud site has such nodes with `slurm: {controllers: ...}` or "
                "`slurm: {servers: ...}`",
            )
        return found[0]

    @cached_property
    def node_group(self) -> NodeGroupPlan:
        """The node group that the image is for."""
        for each in self.cloud_site.node_groups:
            if self.group in ("", each.name):
                return each
        names = ", ".join(each.name for each in self.cloud_site.node_groups)
        raise InputError(
            f"--group {self.group!r} is not one of the node groups of {self.cloud_site.site}: {names}",
            remedy="name one of them",
        )

    @cached_property
    def launch(self) -> Mapping[str, Any]:
        """What the stack says of the group's launch template. Raises InputError if it is not built."""
        prefix = node_prefix(self.cloud_site.site, self.node_group.name)
        slurm = (self.setup.outputs.get(self.cloud_site.site) or {}).get("slurm") or {}
        for each in slurm.get("groups") or ():
            if each["prefix"] == prefix:
                return dict(each)
        raise InputError(
            f"{self.cloud_site.site} has no launch template of {self.node_group.name} yet",
            remedy=f"run `gpufleet up {self.setup.plan.environment}` first: an image is built where its nodes"
            " will be",
        )

    @cached_property
    def session(self) -> Any:
        """The account and region of the site."""
        return stack_session(self.setup.workspace, self.setup.plan.environment, self.cloud_site.region)

    @cached_property
    def base_image(self) -> BaseImage:
        """The image to build on: by default AWS's, at the release that nodes of the group would have.

        Raises InputError if it cannot be used.
        """
        spec, catalog = self.setup.validated.loaded.spec, self.setup.validated.catalog
        wanted = self.base
        if not wanted and catalog.instance(self.node_group.instance_types[0]).neuron:
            wanted = neuron_image(spec, catalog).name
        elif not wanted:
            declared = next(each for each in spec.cloud if each.site == self.cloud_site.site)
            wanted = locked_image(spec, declared, catalog).name
        return find_base(self.session, wanted)

    @property
    def kind(self) -> str:
        """The instance type that builds."""
        return self.instance_type or TYPES[self.base_image.architecture]

    @property
    def name(self) -> str:
        """The name of the new image."""
        plan = self.setup.plan
        return f"{plan.fleet}-{plan.environment}-{self.cloud_site.site}-slurm-{self.started:%Y%m%d-%H%M%S}"

    @property
    def where(self) -> dict[str, str]:
        """Site and region."""
        return {"site": self.cloud_site.site, "region": self.cloud_site.region}

    @property
    def question(self) -> str:
        """What a user is asked before the instance is launched."""
        catalog = self.setup.validated.catalog
        amount = None
        if self.kind in catalog.instances:
            amount = catalog.on_demand(self.kind, self.cloud_site.region).amount
        price = "price unknown" if amount is None else f"{amount} USD an hour"
        first = f"Terminate {', '.join(self.others)}, and launch" if self.others else "Launch"
        return (
            f"{first} one {self.kind} ({price}) in {self.cloud_site.site}, to build {self.name} on"
            f" {self.base_image.label}?"
        )

    @cached_property
    def others(self) -> list[str]:
        """Instances of other builds of the site. Raises RefusedError if there are any, without `discard`."""
        found = builders(self.session.client("ec2"), lasting_tags(self.cloud_site.tags))
        names = [str(each["InstanceId"]) for each in found]
        if names and not self.discard:
            raise RefusedError(
                f"{', '.join(names)}: another build of {self.cloud_site.site} runs, or was killed",
                remedy="wait for it, or terminate its instance with --discard",
            )
        return names

    def run(self) -> str:
        """Build the image, and return its id. The instance is terminated, however this ends."""
        ec2, plan = self.session.client("ec2"), self.setup.plan
        if self.others:
            ec2.terminate_instances(InstanceIds=self.others)
        place = place_of(
            ec2, self.launch["launch_template"], self.launch["version"], self.launch["subnets"][0]
        )
        slurm = self.cloud_site.slurm
        mirrors = [
            each.rack.package_mirror
            for each in plan.host_sites()
            if slurm is not None and each.site == slurm.controllers
        ]
        with (
            tempfile.TemporaryDirectory(prefix="gpufleet-image-") as folder,
            builder(
                ec2,
                self.base_image,
                place,
                instance_type=self.kind,
                key=new_key(Path(folder)),
                name=self.name,
                tags=self.cloud_site.tags,
                pauses=self.pauses,
            ) as instance,
        ):
            identity = str(instance["InstanceId"])
            with self._waiting(f"waiting for the host keys of {identity}", "keys"):
                keys = host_keys(ec2, identity, self.pauses)
            host = ImageHost(
                name=self.name,
                address=str(instance["PrivateIpAddress"]),
                user=self.user,
                keys=keys,
                variables={} if self.direct else session_variables(self.cloud_site.region, identity),
            )
            with HostProgress(err, 1, quiet=self.quiet) as progress:
                project = ansible_project(self.setup.workspace.root)
                mirror = next(iter(mirrors), None) or ""
                configure_image(project, Path(folder), host, mirror, self.ssh_config, progress.on_task)
            with self._waiting(f"making the image {self.name}", "image"):
                return make_image(
                    ec2,
                    identity,
                    self.name,
                    f"Slurm nodes of {self.cloud_site.site}, on {self.base_image.label}",
                    {**self.cloud_site.tags, BASE_TAG: self.base_image.id},
                    self.pauses,
                )

    def _waiting(self, what: str, step: str) -> AbstractContextManager[None]:
        return waiting(what, f"image build/{step}", self.setup.durations, err, quiet=self.quiet)
