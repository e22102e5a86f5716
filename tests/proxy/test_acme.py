"""Certificates by ACME, without an authority: when they are renewed, and what a failure leaves as it was."""

from __future__ import annotations

import datetime as dt
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hedgerow.proxy.acme import AcmeThread, Answers, _pem, certificate_path, prepare, renewal_time
from hedgerow.proxy.tls import Certificate, read_pair
from hedgerow.settings import read_settings

pytest.importorskip("acme")
DAY = 86_400.0
NAMES = ("a.example", "b.example")


def site(folder, directory="https://127.0.0.1:9/directory"):
    text = f"directory = '{folder}'\n[tls]\nacme = ['a.example', 'b.example']\nacme_directory = '{directory}'\n"
    return read_settings(text, environment={})


def issue(path, names=NAMES, *, days=90.0, left=60.0):
    """Write key and certificate as an authority would have issued it, *left* days before its end."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=left)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority")]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(end - dt.timedelta(days=days))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    from cryptography.hazmat.primitives.serialization import Encoding

    path.write_bytes(_pem(key) + made.public_bytes(Encoding.PEM))


def test_the_listener_can_start_before_there_is_a_certificate(tmp_path):
    settings = site(tmp_path)
    path = prepare(settings)
    assert read_pair(path, path).names == NAMES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    Certificate(str(path), str(path))
    assert renewal_time(path, NAMES, 0.5) == 0.0
    before = path.read_bytes()
    assert prepare(settings) == path
    assert path.read_bytes() == before


def test_it_is_renewed_when_a_third_of_its_life_is_left(tmp_path):
    path = tmp_path / "pair.pem"
    issue(path, days=90, left=60)
    end = read_pair(path, path).ends_at
    assert renewal_time(path, NAMES, 0.0) == pytest.approx(end - 30 * DAY)
    assert renewal_time(path, NAMES, 1.0) == pytest.approx(end - 33 * DAY)
    issue(path, days=6, left=6)
    end = read_pair(path, path).ends_at
    assert renewal_time(path, NAMES, 0.0) == pytest.approx(end - 2 * DAY)


def test_other_names_need_another_certificate(tmp_path):
    path = tmp_path / "pair.pem"
    issue(path)
    assert renewal_time(path, ("a.example",), 0.0) == 0.0
    assert renewal_time(path, NAMES[::-1], 0.0) > 0.0


def test_test_certificates_and_real_ones_stay_apart(tmp_path):
    assert certificate_path(site(tmp_path)) != certificate_path(site(tmp_path, "https://127.0.0.1:8/directory"))


def test_a_failure_keeps_the_old_certificate_and_is_reported(tmp_path, caplog):
    settings = site(tmp_path)
    path = certificate_path(settings)
    issue(path, left=20)
    before = path.read_bytes()
    said = []
    thread = AcmeThread(settings, Answers(), said.append)
    now = dt.datetime.now(dt.UTC).timestamp()
    assert [thread.step(now) for _ in range(9)] == [300, 600, 1200, 2400, 4800, 9600, 19200, 38400, 43200]
    assert path.read_bytes() == before
    assert "no certificate could be obtained from https://127.0.0.1:9/directory" in said[0]
    assert "the old one is valid for 20 days" in said[0]
    assert "next try in 5 minutes" in caplog.text
    assert "\n" not in said[0]


def test_nothing_is_asked_before_it_is_time(tmp_path):
    settings = site(tmp_path)
    issue(certificate_path(settings))
    said = []
    thread = AcmeThread(settings, Answers(), said.append)
    assert thread.step(dt.datetime.now(dt.UTC).timestamp()) == 3600
    assert said == []


def test_a_damaged_file_is_obtained_anew(tmp_path):
    settings = site(tmp_path)
    path = prepare(settings)
    path.write_bytes(b"half a fi")
    said = []
    AcmeThread(settings, Answers(), said.append).step(0.0)
    assert "browsers refuse the one in use" in said[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("acme = ['*.example.org']", "tls.acme: '*.example.org' is not a host name"),
        ("acme = ['127.0.0.1']", "is not a host name"),
        ("acme_directory = 'http://example.org/d'", "is the https address of an ACME directory"),
        ("acme = ['a.example']\nacme_email = 'a b'", "is not a mail address"),
    ],
)
def test_faults_say_what_to_do(text, fault):
    from hedgerow.errors import SettingsError

    with pytest.raises(SettingsError) as error:
        read_settings(f"[tls]\n{text}\n", environment={})
    assert any(fault in one for one in error.value.faults), error.value.faults


def test_a_certificate_that_is_named_is_used_instead():
    from hedgerow.settings.dangers import dangers

    settings = read_settings("[tls]\nacme = ['a.example']\ncertificate = 'a'\nkey = 'b'\n", environment={})
    assert not settings.tls.is_obtained
    assert "remove one of them" in dict(dangers(settings))["tls.acme"]


def test_plain_http_is_served_where_an_authority_asks():
    settings = read_settings("[tls]\nacme = ['a.example']\n", environment={})
    assert settings.tls.plain_listen == ":80"
    assert read_settings("[tls]\n", environment={}).tls.plain_listen == ""
