"""`hedgerow protect --acme`: certificates from Pebble, the test authority of Let's Encrypt, on this machine."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509

from certificates import write_pair

from .servers import HEDGEROW, Nginx, Protect, Running, clean_environment, free_port, wait_for

pytest.importorskip("acme")
NAMES = ("shop.example", "www.shop.example")


class Pebble(Running):
    """An authority that validates at *http_port*, and whose names all mean this machine."""

    def __init__(self, programs: tuple[str, str], folder: Path, http_port: int) -> None:
        self.ca, key = write_pair(folder, stem="pebble")
        self.http_port, self.port, management, dns, other = http_port, *(free_port() for _ in range(4))
        config = folder / "pebble.json"
        config.write_text(
            json.dumps(
                {
                    "pebble": {
                        "listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{management}",
                        "certificate": str(self.ca), "privateKey": str(key), "httpPort": http_port, "tlsPort": 1,
                        "ocspResponderURL": "", "externalAccountBindingRequired": False,
                    }
                }
            )
        )  # fmt: skip
        command = [
            programs[1], "-dns01", f"127.0.0.1:{dns}", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "",
            "-https01", "", "-tlsalpn01", "", "-management", f"127.0.0.1:{other}",
        ]  # fmt: skip
        self.names = Running(command, folder / "names.log", cwd=folder)
        # By itself it refuses one nonce in twenty, which the library survives once in a row.
        settings = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}
        super().__init__(
            [programs[0], "-config", str(config), "-strict", "-dnsserver", f"127.0.0.1:{dns}"], folder / "pebble.log",
            cwd=folder, environment=settings,
        )  # fmt: skip
        self.directory = f"https://127.0.0.1:{self.port}/dir"
        wait_for("Pebble", lambda: "Listening on" in self.said() or not self.alive)
        assert self.alive, self.said()

    def stop_all(self) -> None:
        self.stop()
        self.names.stop()


@pytest.fixture
def pebble(program: Callable[[str], str], tmp_path: Path) -> Iterator[Pebble]:
    folder = tmp_path / "pebble"
    folder.mkdir()
    running = Pebble((program("pebble"), program("pebble-challtestsrv")), folder, free_port())
    yield running
    running.stop_all()


@pytest.fixture(scope="module")
def shop(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "index.html").write_text("<!doctype html><title>Shop</title><p>Open")
    return nginx(folder)


def settings_for(pebble: Pebble) -> str:
    return (
        f'[tls]\nacme = {json.dumps(NAMES)}\nacme_directory = "{pebble.directory}"\nacme_ca = "{pebble.ca}"\n'
        f'acme_email = "admin@shop.example"\nredirect = "127.0.0.1:{pebble.http_port}"\n'
    )


def presented(port: int) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode())


def names_of(certificate: x509.Certificate) -> list[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.get_values_for_type(x509.DNSName)


def is_issued(certificate: x509.Certificate) -> bool:
    return "Pebble" in certificate.issuer.rfc4514_string()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_certificate_is_obtained_kept_and_renewed(
    workers: int, protect: Callable[..., Protect], pebble: Pebble, shop: Nginx, tmp_path: Path
) -> None:
    state = {"HEDGEROW__DIRECTORY": str(tmp_path / "state")}
    options = ["--workers", str(workers)]
    server = protect(shop.url, options=options, settings=settings_for(pebble), environment=state)
    # One of two workers may have it a moment later than the other.
    seen: list[x509.Certificate] = []
    wait_for("the certificate", lambda: seen.append(presented(server.port)) or is_issued(seen[-1]), patience=60)
    first = seen[-1]
    assert sorted(names_of(first)) == sorted(NAMES)
    (path,) = (tmp_path / "state" / "acme").glob("*/certificate.pem")
    files = [path, path.with_name("account.pem")]
    assert [one.stat().st_mode & 0o777 for one in files] == [0o600, 0o600]
    # The plain listener answers tokens of orders that run, and redirects all else.
    curl = ["curl", "-s", "-i", "--max-time", "10", f"http://127.0.0.1:{pebble.http_port}/.well-known/acme-challenge/x"]
    said = subprocess.run(curl, capture_output=True, text=True, env=clean_environment(), check=True, timeout=20).stdout
    assert " 301 " in said
    assert "failing" not in server.ask_admin("/ready")
    account = path.with_name("account.pem").read_bytes()
    server.stop()
    # The next start finds both: it asks nobody.
    again = protect(shop.url, settings=settings_for(pebble), environment=state)
    assert presented(again.port).serial_number == first.serial_number
    assert path.with_name("account.pem").read_bytes() == account
    again.stop()
    # Other names: the same account obtains another certificate.
    orders = pebble.said().count("Issued certificate")
    text = settings_for(pebble).replace(json.dumps(NAMES), '["shop.example"]')
    other = protect(shop.url, settings=text, environment=state)
    wait_for("another certificate", lambda: names_of(presented(other.port)) == ["shop.example"], patience=60)
    assert pebble.said().count("Issued certificate") == orders + 1
    assert path.with_name("account.pem").read_bytes() == account


def test_a_failure_keeps_the_certificate_and_is_an_alert(
    protect: Callable[..., Protect], pebble: Pebble, shop: Nginx
) -> None:
    """The authority looks elsewhere than where Hedgerow listens."""
    text = settings_for(pebble).replace(f"127.0.0.1:{pebble.http_port}", f"127.0.0.1:{free_port()}")
    server = protect(shop.url, settings=text)
    wait_for("the failure", lambda: "no certificate could be obtained" in server.said(), patience=60)
    assert not is_issued(presented(server.port))
    assert re.search(r"shop\.example: .*next try in 5 minutes", server.said()), server.said()
    wait_for("the metric", lambda: 'hedgerow_failing{part="certificate"} 1.0' in server.ask_admin("/metrics"))
    assert "browsers refuse the one in use" in server.ask_admin("/")
    assert server.ask_admin("/ready").startswith("well")


def test_without_the_packages_the_start_says_what_to_install(tmp_path: Path) -> None:
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text("import sys\nsys.modules['acme'] = None\n")
    done = subprocess.run(
        [HEDGEROW, "protect", "http://127.0.0.1:9", "--acme", "a.example"],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env=clean_environment(STATE_DIRECTORY=str(tmp_path / "state"), PYTHONPATH=str(tmp_path)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'hedgerow[acme]'" in done.stderr
