"""MIG: profiles that the GPU supports, and layouts that fit on one GPU."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog.mig import MigGpu, mig_of
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.spec.models import MigLayout, OnPremSite


@check("mig-gpu")
def mig_gpu(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only some GPUs support MIG, each with its own profiles (NVIDIA MIG User Guide, Supported MIG
    Profiles)."""
    for path, site, index, item in _layouts(fleet):
        gpu = _gpu(fleet, site)
        if gpu is None:
            continue
        sizes = mig_of(gpu)
        if not sizes:
            if index == 0:
                yield FieldFinding(
                    (*path, "mig"),
                    f"MIG support of {gpu} in {site.system} is not documented",
                    "remove `mig`",
                    value=site.system,
                )
            continue
        known = {profile.name for size in sizes for profile in size.profiles}
        for name in item.profiles:
            if name not in known:
                yield FieldFinding(
                    (*path, "mig", index, "profiles", name),
                    f"{gpu} has no MIG profile {name!r}",
                    did_you_mean(nearest(name, known), f"use one of {listed(sorted(known))}"),
                    value=name,
                )


@check("mig-fits")
def mig_fits(fleet: Fleet) -> Iterator[FieldFinding]:
    """A GPU has seven compute slices and eight memory slices for MIG instances. Each profile can start only
    at certain memory slices (nvidia-smi mig -lgipp)."""
    for path, site, index, item in _layouts(fleet):
        where = (*path, "mig", index, "profiles")
        if not item.profiles:
            yield FieldFinding(
                where,
                "the GPU has no MIG instances, so no job can use it",
                "list profiles, or remove the entry",
            )
            continue
        sizes = mig_of(_gpu(fleet, site))
        if any(name not in {p.name for size in sizes for p in size.profiles} for name in item.profiles):
            continue  # `mig_profiles` reports unknown profiles
        if not any(size.holds(item.profiles) for size in sizes):
            wanted = ", ".join(f"{count} x {name}" for name, count in item.profiles.items())
            yield FieldFinding(
                where,
                f"{wanted} do not fit together on one {sizes[0].gpu}",
                _what_fits(sizes, item),
                value=wanted,
            )


@check("mig-nodes")
def mig_nodes(fleet: Fleet) -> Iterator[FieldFinding]:
    """A GPU has one MIG layout and belongs to a GPU node of the site."""
    seen: dict[tuple[str, str, int], int] = {}
    for path, site, index, item in _layouts(fleet):
        where = (*path, "mig", index)
        strange = [host for host in item.nodes.hosts if host not in site.nodes.hosts]
        if strange:
            yield FieldFinding(
                (*where, "nodes"),
                f"{len(strange)} of these are not GPU nodes of site {site.site!r} ({listed(strange, 3)})",
                f"use nodes of {site.nodes.text}",
                value=item.nodes.text,
            )
        have = fleet.catalog.systems[site.system].gpus if site.system in fleet.catalog.systems else 0
        for place, gpu in enumerate(item.gpus):
            if have and gpu >= have:
                yield FieldFinding(
                    (*where, "gpus", place),
                    f"a {site.system} has GPUs 0 to {have - 1}",
                    "use one of these",
                    value=gpu,
                )
            if gpu in item.gpus[:place]:
                yield FieldFinding(
                    (*where, "gpus", place), f"GPU {gpu} is listed twice", "list it once", value=gpu
                )
        twice: dict[int, list[str]] = {}
        for host in item.nodes.hosts:
            for gpu in item.gpus or range(have):
                other = seen.setdefault((site.site, host, gpu), index)
                if other != index:
                    twice.setdefault(other, []).append(host)
        for other, hosts in twice.items():
            names = list(dict.fromkeys(hosts))
            yield FieldFinding(
                (*where, "nodes"),
                f"GPUs of {listed(names, 3)} are also in entry {other + 1} of `mig`",
                "give each GPU one layout",
                value=item.nodes.text,
            )


def _layouts(fleet: Fleet) -> Iterator[tuple[SpecPath, OnPremSite, int, MigLayout]]:
    for path, site in fleet.onprem():
        for index, item in enumerate(site.mig or ()):
            yield path, site, index, item


def _gpu(fleet: Fleet, site: OnPremSite) -> str | None:
    """Return the site's GPU, None for an unknown system type."""
    system = fleet.catalog.systems.get(site.system)
    return None if system is None else system.gpu


def _what_fits(sizes: tuple[MigGpu, ...], item: MigLayout) -> str:
    """Suggest the maximum count if the layout has only one profile."""
    name = next(iter(item.profiles))
    most = max((p.most for size in sizes for p in size.profiles if p.name == name), default=0)
    if item.profiles[name] > most:
        return f"write at most {most} of {name}"
    return "use fewer or smaller instances; `nvidia-smi mig -lgipp` on a node prints their valid positions"


CHECKS = (mig_gpu, mig_fits, mig_nodes)
