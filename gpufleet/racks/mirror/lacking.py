"""What a mirror lacks, asked as nodes ask it: without credentials, by the OCI Distribution API."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import asdict

from gpufleet.errors import CloudError, InputError
from gpufleet.plan.models import OnPremSitePlan
from gpufleet.racks.mirror.needs import NeededImage, Needs
from gpufleet.racks.mirror.web import RegistryAnswer, UnreachableError, ask
from gpufleet.racks.variables.kubernetes import chart_folder

_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class MissingItem(Struct, frozen=True):
    """An image or chart that a site's mirror does not hand out: what was asked, and why it is missing."""

    site: str
    name: str
    address: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def find_lacking(needs: Needs, registry: str = "") -> list[MissingItem]:
    """Return what the sites' `image_mirror`, or `registry`, and the `charts/` of their `package_mirror` lack.

    Raises InputError for a site without a registry, CloudError if one does not answer.
    """
    found: list[MissingItem] = []
    for site in needs.sites:
        mirror, charts = _registry(site, registry), chart_folder(site)
        asked = [(image.name, _manifest(mirror, image)) for image in needs.images_of(site.site)]
        if charts is not None:
            files = [needed.chart.file for needed in needs.charts_of(site.site)]
            asked += [(file, f"{charts}/{file}") for file in files]
        found += [
            MissingItem(site.site, name, address, reason)
            for name, address in asked
            if (reason := _refusal(address))
        ]
    return found


def _registry(site: OnPremSitePlan, registry: str) -> str:
    mirror = registry or site.rack.image_mirror
    remedy = "write `image_mirror` of the site, or --registry, as https://registry.example.com"
    if not mirror:
        raise InputError(f"site {site.site} has no image_mirror", remedy=remedy)
    if not re.match(r"https?://[^/]", mirror):
        raise InputError(f"{mirror!r} is not the address of a registry", remedy=remedy)
    return mirror.rstrip("/")


def _manifest(registry: str, image: NeededImage) -> str:
    repository, _, tag = image.path.rpartition(":")
    return f"{registry}/v2/{repository}/manifests/{tag}"


def _refusal(address: str) -> str:
    """Return why an address hands out nothing; empty if it does."""
    try:
        answer = ask(address, method="HEAD", headers={"Accept": _ACCEPT})
        if answer.code == 401:
            # A registry may want a token from clients without an account as well; containerd gets one.
            answer = _with_token(address, answer)
    except UnreachableError as error:
        raise CloudError(
            str(error), remedy="check the address, and run the command where the site's network is reached"
        ) from None
    if answer.code in (401, 403):
        return f"answers {answer.code}: nodes have no credentials, so it must be readable without"
    return {200: "", 404: "not found"}.get(answer.code, f"answers {answer.code}")


def _with_token(address: str, answer: RegistryAnswer) -> RegistryAnswer:
    """Ask again with a token, if the registry names its realm (distribution.github.io, "Token auth")."""
    kind, _, challenge = answer.headers.get("WWW-Authenticate", "").partition(" ")
    parameters = dict(_PARAMETER.findall(challenge))
    realm = parameters.pop("realm", "")
    if kind.lower() != "bearer" or not realm:
        return answer
    given = ask(f"{realm}?{urlencode(parameters)}")
    try:
        document = json.loads(given.body)
        token = document.get("token") or document["access_token"]
    except (ValueError, KeyError, AttributeError):
        return answer
    return ask(address, method="HEAD", headers={"Accept": _ACCEPT, "Authorization": f"Bearer {token}"})
