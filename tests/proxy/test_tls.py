"""TLS on our server: the handshake, limits during it, and a certificate that changes while the server runs."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import uvloop
from cryptography import x509

from certificates import write_pair
from hedgerow.errors import TlsError
from hedgerow.proxy.server import make_server
from hedgerow.proxy.server_protocol import ServerLimits
from hedgerow.proxy.tls import Certificate, CertificateFacts, read_pair

from .test_server import App, Server, get, rest, until

DAY = 86_400.0


class TlsServer(Server):
    """Our server with TLS. *names* asks for the certificate of a new connection."""

    certificate: Certificate

    def secure(self, **more: object) -> ssl.SSLSocket:
        context = ssl._create_unverified_context()
        for name, value in more.items():
            setattr(context, name, value)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context.wrap_socket(self.connect(), server_hostname="site.example")

    def name(self) -> str:
        with self.secure() as client:
            found = x509.load_der_x509_certificate(client.getpeercert(binary_form=True))
            return found.subject.rfc4514_string()


@contextmanager
def running(folder: Path, limits: ServerLimits | None = None, **more: object) -> Iterator[TlsServer]:
    door = socket.create_server(("127.0.0.1", 0))
    app = App()
    certificate = Certificate(*map(str, write_pair(folder)), **more)
    server = make_server(app, "127.0.0.1", 0, limits=limits, grace_period=2, certificate=certificate)
    thread = threading.Thread(target=lambda: uvloop.run(server.serve(sockets=[door])))
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield TlsServer(app, server, door.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        door.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TlsServer]:
    with running(tmp_path) as server:
        yield server


def test_a_request_over_tls_gets_its_response(server: TlsServer) -> None:
    with server.secure() as client:
        client.sendall(get())
        assert rest(client).startswith(b"HTTP/1.1 200 ")
        assert client.selected_alpn_protocol() == "http/1.1"
        assert client.version() == "TLSv1.3"


def test_a_request_in_the_packet_of_the_handshake_is_not_lost(server: TlsServer) -> None:
    """The last bytes of a handshake and a request often arrive together."""
    context = ssl._create_unverified_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="site.example")
    with server.connect() as raw:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65_536))
        client.write(get())
        raw.sendall(outgoing.read())
        said = b""
        while b"\r\n\r\n" not in said:
            incoming.write(raw.recv(65_536))
            try:
                said += client.read(65_536)
            except ssl.SSLWantReadError:
                continue
    assert said.startswith(b"HTTP/1.1 200 ")


def test_a_new_certificate_is_used_without_a_restart_and_open_connections_go_on(
    tmp_path: Path, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hedgerow.server")
    with server.secure() as before:
        before.sendall(get(close=False))
        assert before.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert server.name() == "CN=site.example"
        # Another type of key: the old certificate must not stay beside it.
        write_pair(tmp_path, "new.example", kind="rsa")
        until(lambda: server.name() == "CN=new.example")
        before.sendall(get())
        assert b"HTTP/1.1 200 " in rest(before)
    assert "new certificate for new.example" in caplog.text


def test_a_pair_that_does_not_fit_is_not_used_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = Certificate(*map(str, write_pair(tmp_path)))
    other, _ = write_pair(tmp_path, "other.example", stem="other")
    (tmp_path / "site.crt").write_bytes(other.read_bytes())
    for _ in range(4):
        assert not certificate.reload_if_changed()
    assert certificate.facts.names[0] == "site.example"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "is not the key of the first certificate" in caplog.text
    # The key that belongs to it arrives.
    (tmp_path / "site.key").write_bytes((tmp_path / "other.key").read_bytes())
    assert certificate.reload_if_changed()
    assert certificate.facts.names[0] == "other.example"


def test_a_pair_that_is_replaced_file_by_file_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = Certificate(*map(str, write_pair(tmp_path)))
    write_pair(tmp_path, "other.example", stem="other")
    (tmp_path / "other.crt").rename(tmp_path / "site.crt")
    assert not certificate.reload_if_changed()
    (tmp_path / "other.key").rename(tmp_path / "site.key")
    assert certificate.reload_if_changed()
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_files_that_vanish_for_a_moment_change_nothing(tmp_path: Path) -> None:
    certificate = Certificate(*map(str, write_pair(tmp_path)))
    (tmp_path / "site.key").rename(tmp_path / "away")
    assert not certificate.reload_if_changed()
    assert not certificate.reload_if_changed()
    (tmp_path / "away").rename(tmp_path / "site.key")
    assert certificate.reload_if_changed()


def test_handshakes_that_never_end_give_way_to_others(tmp_path: Path) -> None:
    with running(tmp_path, ServerLimits(connections=5, head_timeout=60.0)) as server, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(server.connect())
        until(lambda: len(server.state.connections) == 5)

        def is_served() -> bool:
            try:
                with server.secure() as client:
                    client.sendall(get())
                    return rest(client).startswith(b"HTTP/1.1 200 ")
            except OSError:
                return False

        assert not is_served()
        until(is_served)


def test_old_versions_of_tls_are_refused(tmp_path: Path, server: TlsServer) -> None:
    old = {"minimum_version": ssl.TLSVersion.TLSv1, "maximum_version": ssl.TLSVersion.TLSv1_1}
    with pytest.warns(DeprecationWarning, match="TLSv1"), pytest.raises(OSError):
        server.secure(**old)
    with server.secure(maximum_version=ssl.TLSVersion.TLSv1_2) as client:
        assert client.version() == "TLSv1.2"
        assert "ECDHE" in client.cipher()[0]
    with running(tmp_path, minimum="1.3") as strict, pytest.raises(OSError):
        strict.secure(maximum_version=ssl.TLSVersion.TLSv1_2)


def test_a_client_that_never_shakes_hands_is_dropped_and_counted(tmp_path: Path) -> None:
    limits = ServerLimits(head_timeout=1.0, connections=3, connections_per_address=3)
    with running(tmp_path, limits) as server:
        silent = [server.connect() for _ in range(3)]
        until(lambda: len(server.state.connections) == 3)
        with pytest.raises(OSError), server.secure() as client:
            client.recv(1)
        # After the time for a request head they are gone.
        assert [one.recv(1) for one in silent] == [b"", b"", b""]
        until(lambda: not server.state.connections)
        assert server.name() == "CN=site.example"
        for one in silent:
            one.close()


def test_a_client_that_leaves_before_the_handshake_is_forgotten(server: TlsServer) -> None:
    for start in (b"", b"\x16\x03\x01"):
        with server.connect() as client:
            until(lambda: len(server.state.connections) == 1)
            client.sendall(start)
        until(lambda: not server.state.connections)


def test_plain_http_on_the_port_of_https_ends_the_connection(server: TlsServer) -> None:
    with server.connect() as client:
        client.sendall(get())
        assert b"HTTP/1.1 200" not in rest(client)
    until(lambda: not server.state.connections)


def test_the_server_stops_while_a_handshake_is_under_way(tmp_path: Path) -> None:
    began = time.monotonic()
    with running(tmp_path) as server:
        waiting = server.connect()
        until(lambda: server.state.connections)
    assert time.monotonic() - began < 8
    assert waiting.recv(1) == b""
    waiting.close()


@pytest.mark.parametrize(
    ("certificate", "key", "fault"),
    [
        ("missing", "site.key", "missing cannot be read: No such file"),
        ("site.crt", "missing", "missing cannot be read: No such file"),
        ("site.key", "site.key", "site.key is no certificate in PEM"),
        ("site.crt", "site.crt", "site.crt is no unencrypted private key in PEM"),
        ("site.crt", "other.key", "other.key is not the key of the first certificate in .*site.crt"),
    ],
)
def test_what_is_wrong_with_a_pair_is_one_line(tmp_path: Path, certificate: str, key: str, fault: str) -> None:
    write_pair(tmp_path)
    write_pair(tmp_path, stem="other")
    with pytest.raises(TlsError, match=fault) as raised:
        read_pair(tmp_path / certificate, tmp_path / key)
    assert "\n" not in str(raised.value)


def test_a_certificate_warns_before_it_expires() -> None:
    facts = CertificateFacts(("a",), 0.0, 100 * DAY)
    assert facts.warning(50 * DAY) == ""
    assert facts.warning(90 * DAY) == "expires in 10 days"
    assert facts.warning(103 * DAY) == "expired 3 days ago"
    assert facts.warning(-1.0).startswith("is not valid yet")
