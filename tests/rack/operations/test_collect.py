"""One support bundle of a site with a stopped host, a planted secret, and the secrets of Slurm."""

from __future__ import annotations

import json
import tarfile

import pytest

from tests.rack.operations.operating import lose_power, operate, wait_until
from tests.rack.site import Site

PLANTED = "Planted-9f3c1b7a"


@pytest.mark.breaks("ctl01", "dgx04")  # the secret stays in the journal of ctl01
def test_support_bundle_has_all_reachable_hosts_names_the_others_and_has_no_secret(
    site_to_break: Site,
) -> None:
    site = site_to_break
    lab = site.lab
    password = site.secrets["GPUFLEET_SECRET_DATABASE_PASSWORD_LAB"]
    lab.sh("ctl01", f"logger -p user.warning 'login with password={PLANTED} and {password}'")
    lab.rack.stop("dgx04", force=True)

    # This machine fails after it has the archives of the first hosts.
    path = site.checkout / "bundle.tar.gz"
    parts = path.with_name("bundle.tar.gz.parts")
    words = ("-o", f"output={path.name}", "-o", "since=2")
    with site.configuring("collect", *words, verb="operate") as run:
        wait_until(lambda: any(parts.glob("*.tar.gz")), run)
        lose_power(site, "collect", run)
    assert not path.exists()

    result = operate(site, "collect", "--resume", code=4)
    assert result["failed_hosts"] == ["dgx04"]
    assert path.stat().st_mode & 0o077 == 0
    assert not path.with_name("bundle.tar.gz.parts").exists()
    with tarfile.open(path) as bundle:
        texts = {entry.name: bundle.extractfile(entry).read() for entry in bundle}
    index = json.loads(texts["index.json"])
    assert list(index["missing"]) == ["dgx04"]
    assert sorted(index["hosts"]) == ["ctl01", "ctl02", "dgx01", "dgx02", "dgx03", "login01"]
    for name in ("ctl01/files/etc/slurm/slurm.conf", "ctl01/journal/slurmctld.service", "dgx01/gpu/query"):
        assert texts[name].strip(), name
    assert b"login with password=[removed]" in texts["ctl01/journal/warnings"]
    assert b"StoragePass=[removed]" in texts["ctl01/files/etc/slurm/slurmdbd.conf"]
    everything = b"\n".join(texts.values())
    for secret in (PLANTED, *site.secrets.values()):
        assert secret.encode() not in everything
    assert lab.sh("ctl01", "ls /var/tmp | grep -c gpufleet-support || true").strip() == "0"

    # The stopped host is added to the existing bundle when it is back.
    lab.rack.start("dgx04")
    added = operate(site, "collect", "--resume")
    assert added["states"] == {"dgx04": "done"}
    with tarfile.open(path) as bundle:
        names = {entry.name for entry in bundle}
        index = json.loads(bundle.extractfile("index.json").read())  # type: ignore[union-attr]
    assert set(texts) < names and "dgx04/gpu/query" in names
    assert index["missing"] == {} and len(index["hosts"]) == 7
