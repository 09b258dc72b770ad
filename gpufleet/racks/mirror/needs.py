"""The container images and Helm charts that rack sites with Kubernetes pull."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gpufleet.catalog import Catalog, HelmChart, ImageSet, SoftwareLock
from gpufleet.catalog.models import SitePart
from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan, OnPremSitePlan
from gpufleet.racks.variables.kubernetes_gpu import virtual_functions


class NeededImage(Struct, frozen=True):
    """An image, its component, and the sites that pull it. `note` is empty for a name that was verified."""

    name: str
    component: str
    sites: tuple[str, ...]
    source: str
    note: str

    @property
    def path(self) -> str:
        """Its name in a mirror: without the registry's host."""
        return self.name.partition("/")[2]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "component": self.component,
            "sites": list(self.sites),
            "verified": not self.note,
            "source": self.source,
            "note": self.note,
        }


class NeededChart(Struct, frozen=True):
    """A chart and the sites that install it."""

    chart: HelmChart
    sites: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return self.chart.model_dump() | {"file": self.chart.file, "sites": list(self.sites)}


class Needs(Struct, frozen=True):
    """What sites need from a mirror: images by component and name, charts by name."""

    sites: tuple[OnPremSitePlan, ...]
    images: tuple[NeededImage, ...]
    charts: tuple[NeededChart, ...]

    def images_of(self, site: str) -> list[NeededImage]:
        """Return the images that one site pulls."""
        return [image for image in self.images if site in image.sites]

    def charts_of(self, site: str) -> list[NeededChart]:
        """Return the charts that one site installs."""
        return [chart for chart in self.charts if site in chart.sites]


def needs_of(plan: FleetPlan, catalog: Catalog, site: str = "") -> Needs:
    """Return what the rack sites with Kubernetes need, or one of them.

    Raises InputError if there is no such site.
    """
    known = [each for each in plan.onprem if each.rack.kubernetes is not None]
    sites = tuple(each for each in known if site in ("", each.site))
    if not sites:
        names = ", ".join(each.site for each in known)
        raise InputError(
            f"{plan.environment} has no rack site {site!r} with Kubernetes"
            if site
            else f"{plan.environment} has no rack site with Kubernetes",
            remedy=f"use one of {names}"
            if names
            else "a mirror serves sites under `onprem` with `scheduler: kubernetes`",
        )
    lock = catalog.lock(plan.software_channel)
    images: dict[str, NeededImage] = {}
    charts: dict[str, NeededChart] = {}
    for each in sites:
        for component, parts in _components(each, catalog, lock):
            note = "" if component.verified else component.note
            for name in (*component.images, *(name for part in parts for name in component.parts[part])):
                before = images[name].sites if name in images else ()
                images[name] = NeededImage(
                    name, component.component, (*before, each.site), component.source, note
                )
            if component.chart is not None:
                taken = charts[component.chart.file].sites if component.chart.file in charts else ()
                charts[component.chart.file] = NeededChart(component.chart, (*taken, each.site))
    return Needs(
        sites,
        tuple(sorted(images.values(), key=lambda image: (image.component, image.name))),
        tuple(charts[name] for name in sorted(charts)),
    )


def _components(
    site: OnPremSitePlan, catalog: Catalog, lock: SoftwareLock
) -> Iterator[tuple[ImageSet, list[SitePart]]]:
    """The components of a site, and the parts of them that it has.

    The roles decide on the same values: ansible/roles/kubernetes_gpu/vars/main.yml and the filters
    `network_operator_values` and `rdma_objects`.
    """
    kubernetes = site.rack.kubernetes
    if kubernetes is None:
        return
    yield catalog.images["kubernetes", lock.kubernetes_releases[kubernetes.version]], []
    yield catalog.images[kubernetes.cni, lock.cni[kubernetes.cni]], []
    if kubernetes.kueue:
        yield catalog.images["kueue", lock.kueue], []
    if kubernetes.gpu_operator:
        yield catalog.images["gpu-operator", lock.gpu_operator], []
    if kubernetes.network_operator:
        parts: list[SitePart] = ["virtual-functions" if virtual_functions(site) else "shared-adapters"]
        # The GPU Operator brings node feature discovery where it is installed.
        parts += [] if kubernetes.gpu_operator else ["discovery"]
        yield catalog.images["network-operator", lock.network_operator], parts
