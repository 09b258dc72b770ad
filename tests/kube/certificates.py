"""Certificates of one test cluster, created at its start and deleted at its stop."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=1)


class Authority:
    """A certificate authority that signs for servers on loopback and for clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpufleet tests")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        (folder / "ca.crt").write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, common_name: str, organization: str = "", days: float | None = None
    ) -> tuple[Path, Path]:
        """A certificate and its key, as files `<name>.crt` and `<name>.key`, for loopback and for clients.

        It lasts for `days`, or longer than any test.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            self._builder(x509.Name(attributes), key, _LIFETIME if days is None else dt.timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName(places), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        paths = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(paths[1], key)
        return paths

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: dt.timedelta = _LIFETIME
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + lifetime)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """The private key as PEM, for its owner only."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def signing_key(path: Path) -> Path:
    """A key that the server signs service account tokens with."""
    write_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path
