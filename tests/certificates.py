"""Certificates for tests: a pair of files for 127.0.0.1, signed by itself."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


def write_pair(
    folder: Path, name: str = "site.example", *, days: float = 90, stem: str = "site", kind: str = "ec"
) -> tuple[Path, Path]:
    """Write `STEM.crt` and `STEM.key`, and return their paths. Each file is replaced at once, as certbot does."""
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [x509.DNSName(name), x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=100))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = folder / f"{stem}.crt", folder / f"{stem}.key"
    for path, data in zip(paths, (certificate.public_bytes(serialization.Encoding.PEM), private), strict=True):
        new = path.with_suffix(path.suffix + ".new")
        new.touch(0o600)
        new.write_bytes(data)
        new.rename(path)
    return paths
