"""The certificate that a client trusts as it is: for one name, made once, for root only."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

from .conftest import load

made = load("self_signed_certificate")


def work(folder: Path, name: str = "ctl01", days: int = 3650, check: bool = False) -> dict[str, object]:
    return dict(made.work({"path": str(folder), "name": name, "days": days}, check))


def handshake(folder: Path, name: str) -> None:
    """A client that trusts only this certificate connects to a server that has it."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    client = ssl.create_default_context(cafile=folder / "tls.crt")
    ends = [
        client.wrap_bio(theirs, ours, server_hostname=name),
        server.wrap_bio(ours, theirs, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert ends[0].version()


def test_certificate_is_made_once_and_serves_its_name_only(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    assert work(folder, check=True) == {"changed": True, "reason": "there is none"}
    assert not folder.exists()
    assert work(folder)["changed"] is True
    assert {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())} == {
        "metrics": 0o700,
        "tls.crt": 0o600,
        "tls.key": 0o600,
    }
    handshake(folder, "ctl01")
    try:
        handshake(folder, "ctl02")
    except ssl.SSLCertVerificationError as error:
        assert "ctl02" in str(error)
    else:
        raise AssertionError("it serves another name")
    before = (folder / "tls.crt").read_bytes()
    assert work(folder) == {"changed": False, "reason": ""}
    assert (folder / "tls.crt").read_bytes() == before


def test_certificate_of_another_name_or_near_its_end_is_replaced(tmp_path: Path) -> None:
    work(tmp_path, days=300)
    assert work(tmp_path)["reason"] == "it ends within a year"
    assert work(tmp_path, name="ctl02")["reason"] == "it is not for ctl02"
    handshake(tmp_path, "ctl02")
