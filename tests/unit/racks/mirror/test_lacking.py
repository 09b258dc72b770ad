"""What a mirror lacks, asked of registries on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import HelmChart
from gpufleet.errors import CloudError, InputError
from gpufleet.plan.models import OnPremSitePlan
from gpufleet.plan.rack import plan_rack
from gpufleet.racks.mirror.lacking import MissingItem, find_lacking
from gpufleet.racks.mirror.needs import NeededChart, NeededImage, Needs
from tests.unit.racks.conftest import declared_site
from tests.unit.racks.mirror.registries import COREDNS, NODE, PAUSE, Public

KUEUE = HelmChart(name="kueue", version="0.19.2", repository="oci://registry.k8s.io/kueue/charts")
SiteNeeds = Callable[..., Needs]


@pytest.fixture
def site_needs(make_rack: Callable[..., OnPremSitePlan]) -> SiteNeeds:
    """Needs of a site with mirrors: images and the chart of Kueue."""

    def make(*images: str, **mirrors: str) -> Needs:
        site = make_rack(rack=plan_rack(declared_site(**mirrors)))
        needed = tuple(NeededImage(name, "kubernetes", ("dc1",), "", "") for name in images)
        return Needs((site,), needed, (NeededChart(KUEUE, ("dc1",)),))

    return make


def test_every_missing_image_and_chart_is_found_with_its_address(
    public: Public, site_needs: SiteNeeds
) -> None:
    public.publish(PAUSE)
    public.publish_list(NODE, ("amd64",))
    mirror = f"http://{public.address}"
    needs = site_needs(PAUSE, NODE, COREDNS, image_mirror=mirror, package_mirror=f"{mirror}/rack")
    chart = f"{mirror}/rack/charts/kueue-0.19.2.tgz"
    manifest = f"{mirror}/v2/coredns/coredns/manifests/v1.13.1"
    assert find_lacking(needs) == [
        MissingItem("dc1", COREDNS, manifest, "not found"),
        MissingItem("dc1", "kueue-0.19.2.tgz", chart, "not found"),
    ]
    public.publish(COREDNS)
    charts = public.folder / "rack" / "charts"
    charts.mkdir(parents=True)
    (charts / "kueue-0.19.2.tgz").write_bytes(b"")
    assert find_lacking(needs) == []


def test_option_names_another_registry_and_a_site_needs_one(public: Public, site_needs: SiteNeeds) -> None:
    public.publish(PAUSE)
    assert find_lacking(site_needs(PAUSE), f"http://{public.address}/") == []
    with pytest.raises(InputError, match="site dc1 has no image_mirror"):
        find_lacking(site_needs(PAUSE))
    with pytest.raises(InputError, match=r"'registry\.example\.com' is not the address of a registry"):
        find_lacking(site_needs(PAUSE), "registry.example.com")


def test_a_registry_that_does_not_answer_is_no_list_of_missing_images(
    public: Public, site_needs: SiteNeeds
) -> None:
    public.stop()
    with pytest.raises(CloudError, match=r"pause/manifests/3\.10\.1 does not answer: .*refused"):
        find_lacking(site_needs(PAUSE), f"http://{public.address}")


class Guarded(BaseHTTPRequestHandler):
    """A registry that asks for a token, or for a password where `realm` is empty."""

    realm = ""
    tokens: list[str] = []  # noqa: RUF012

    def do_HEAD(self) -> None:
        if self.headers.get("Authorization") == "Bearer of-nobody":
            self.send_response(200)
        else:
            self.send_response(401)
            bearer = f'Bearer realm="{self.realm}",service="reg",scope="repository:pause:pull"'
            self.send_header("WWW-Authenticate", bearer if self.realm else 'Basic realm="reg"')
        self.end_headers()

    def do_GET(self) -> None:
        self.tokens.append(self.path)
        content = json.dumps({"token": "of-nobody"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def guarded() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    Guarded.tokens.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_that_everyone_gets_is_fetched_as_containerd_does(
    guarded: str, site_needs: SiteNeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guarded, "realm", f"{guarded}/token")
    assert find_lacking(site_needs(PAUSE), guarded) == []
    assert Guarded.tokens == ["/token?service=reg&scope=repository%3Apause%3Apull"]


def test_an_image_that_needs_a_login_is_missing_for_nodes(
    guarded: str, site_needs: SiteNeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guarded, "realm", "")
    (lack,) = find_lacking(site_needs(PAUSE), guarded)
    assert lack.reason.startswith("answers 401: nodes have no credentials")


def test_a_realm_cannot_name_a_file_of_this_machine(
    guarded: str, site_needs: SiteNeeds, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(json.dumps({"token": "of-nobody"}))
    monkeypatch.setattr(Guarded, "realm", token.as_uri())
    with pytest.raises(CloudError, match="unknown url type: file"):
        find_lacking(site_needs(PAUSE), guarded)
