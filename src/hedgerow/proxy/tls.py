"""
TLS for the public listener: the certificate, its renewal while the server runs, and the handshake of each connection.

    Certificate              a pair of files; a new pair is used for new connections, without a restart
    TlsHandshake             one connection until its handshake is complete; then `ServerProtocol` continues

A connection is counted from the moment it is accepted. asyncio's own TLS server would show it only after the handshake,
so a client that never begins one could occupy every file that the process may open.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal, cast

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hedgerow.errors import TlsError
from hedgerow.proxy.connections import Connections
from hedgerow.proxy.server_protocol import ServerLimits, ServerProtocol
from hedgerow.web.sites import HostTable

_log = logging.getLogger("hedgerow.server")

_FLOORS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CLOSE_SECONDS = 5.0
_MAX_EARLY_BYTES = 1_048_576
_DAY = 86_400.0

Floor = Literal["1.2", "1.3"]


@dataclass(frozen=True)
class CertificateFacts:
    """What a certificate says: the names it is for, and its time in Unix seconds."""

    names: tuple[str, ...]
    starts_at: float
    ends_at: float

    def warning(self, now: float, *, days: float = 14) -> str:
        """Return why browsers refuse it at *now*, or will within *days*; empty if they accept its time."""
        if now >= self.ends_at:
            return f"expired {(now - self.ends_at) / _DAY:.0f} days ago"
        if now < self.starts_at:
            return "is not valid yet; is the clock of this machine right?"
        left = (self.ends_at - now) / _DAY
        return f"expires in {left:.0f} days" if left < days else ""


def read_pair(certificate: Path, key: Path) -> CertificateFacts:
    """Return what *certificate* says. Raises TlsError if the files cannot be used together."""
    chain = _read(certificate, lambda data: x509.load_pem_x509_certificates(data), "certificate in PEM")  # noqa: PLW0108
    private = _read(key, lambda data: load_pem_private_key(data, None), "unencrypted private key in PEM")
    first = chain[0]
    if first.public_key() != private.public_key():
        raise TlsError(f"{key} is not the key of the first certificate in {certificate}")
    try:
        found = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        names = ()
    return CertificateFacts(names, first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp())


def _read(path: Path, parse: Callable[[bytes], Any], kind: str) -> Any:
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise TlsError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, ssl.SSLError):
        # The library's message may quote the file.
        raise TlsError(f"{path} is no {kind}") from None


class Certificate:
    """
    A certificate and its key, read again when one of the files changes.

    New connections get the new certificate; those that are open go on. A pair that does not fit is not used. That is
    normal for a moment while it is being replaced, so only one that stays is logged. *context* has no certificate of
    its own. It is made once, before any fork, so that all workers accept the session tickets of each other.
    """

    def __init__(self, certificate: str, key: str, *, minimum: Floor = "1.2") -> None:
        self._certificate, self._key = Path(certificate).expanduser(), Path(key).expanduser()
        self._minimum = minimum
        self._seen = self._stamp()
        self.facts = read_pair(self._certificate, self._key)
        self._current = self._load()
        self._failed: object = None
        self._by_name: HostTable[Certificate | None] = HostTable({}, None)
        self._others: Sequence[Certificate] = ()
        self.context = self._new_context()
        self.context.sni_callback = self._choose

    def add(self, others: Mapping[str, Certificate]) -> None:
        """Use *others* for connections to these hosts, which may be wildcards such as `*.example.org`."""
        self._by_name = HostTable(dict(others), None)
        self._others = tuple({id(one): one for one in others.values()}.values())

    def reload_if_changed(self) -> bool:
        """Use the pairs that are in the files now. Return whether its own is another one. Called once a second."""
        for other in self._others:
            other.reload_if_changed()
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        try:
            facts, loaded = read_pair(self._certificate, self._key), self._load()
        except TlsError as error:
            if self._failed == stamp:
                _log.error("the certificate stays as it was: %s", error)
                self._seen = stamp
            self._failed = stamp
            return False
        self._seen, self.facts, self._current = stamp, facts, loaded
        _log.info("new certificate for %s, valid for %.0f days", ", ".join(facts.names) or "no name", self.days_left())
        return True

    def days_left(self) -> float:
        return (self.facts.ends_at - time.time()) / _DAY

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        found = self._by_name.find(name.encode()) if name and self._others else None
        connection.context = (self if found is None else found)._current  # noqa: SLF001 - of the same class

    def _stamp(self) -> object:
        """Return what changes with the files. Links are followed: certbot replaces a link."""
        try:
            found = [path.stat() for path in (self._certificate, self._key)]
        except OSError as error:
            return error.errno
        return [(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) for one in found]

    def _load(self) -> ssl.SSLContext:
        context = self._new_context()
        try:
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            raise TlsError(f"{self._certificate} cannot be used: {error.strerror or error}") from None
        return context

    def _new_context(self) -> ssl.SSLContext:
        # Python's defaults for a server: only ciphers with forward secrecy, no compression, no renegotiation.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _FLOORS[self._minimum]
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        return context


class _Started:
    """
    A coroutine that has already run until it waits for the first time, and that a task continues.

    A task alone would begin at the next turn of the event loop. The client's first bytes may arrive before that, and
    would not reach the handshake.
    """

    def __init__(self, coroutine: Coroutine[Any, None, asyncio.Transport | None]) -> None:
        self._coroutine = coroutine
        self._awaited = coroutine.send(None)

    def __await__(self) -> Generator[Any, None, asyncio.Transport | None]:
        try:
            yield self._awaited
        except BaseException as error:  # noqa: BLE001 - such as a cancellation: the coroutine decides
            self._coroutine.throw(error)
        try:
            while True:
                yield self._coroutine.send(None)
        except StopIteration as done:
            return cast("asyncio.Transport | None", done.value)


class TlsHandshake(asyncio.Protocol):
    """A connection whose handshake is not complete. Bytes that arrive right behind it are kept for the server."""

    def __init__(
        self, *args: Any, certificate: Certificate, limits: ServerLimits, admission: Connections, **kwargs: Any
    ) -> None:
        self._next = ServerProtocol(*args, limits=limits, admission=admission, **kwargs)
        self._certificate = certificate
        self._timeout = limits.head_timeout
        self._admission = admission
        self._open = self._next.server_state.connections
        self._early = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self.idle_since = inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self.idle_since = loop.time()
        peer = transport.get_extra_info("peername")
        if not self._admission.admit(self, peer[0] if peer else "", loop.time()):
            # Without a handshake there is nothing that the client could read.
            self._transport.abort()
            return
        self._open.add(cast("Any", self))
        started = _Started(
            loop.start_tls(
                self._transport, self, self._certificate.context, server_side=True,
                ssl_handshake_timeout=self._timeout, ssl_shutdown_timeout=_CLOSE_SECONDS,
            )
        )  # fmt: skip
        self._task = loop.create_task(self._continue(self._transport, started))

    def data_received(self, data: bytes) -> None:
        self._early += data
        if len(self._early) > _MAX_EARLY_BYTES:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._leave()

    def shutdown(self) -> None:
        """End the connection; the server is about to stop."""
        if self._transport is not None:
            self._transport.abort()

    def close_idle(self) -> None:
        """End a handshake that takes long, to make room for another connection."""
        self.shutdown()

    def _leave(self) -> None:
        self._ended = True
        self._admission.release(self)
        self._open.discard(cast("Any", self))

    async def _continue(self, plain: asyncio.Transport, started: _Started) -> None:
        """Wait for the end of the handshake, and let the server continue."""
        try:
            transport = await started
        except (OSError, asyncio.CancelledError) as error:
            # ssl.SSLError is an OSError. A client that speaks plain HTTP, or trusts nobody, ends here.
            _log.debug("TLS handshake failed: %s", error)
            plain.abort()
            self._leave()
            return
        ended = self._ended
        self._leave()
        # A client that leaves before the handshake is no error for uvloop.
        if transport is None or ended or transport.is_closing():
            plain.abort()
            return
        transport.set_protocol(self._next)
        self._next.connection_made(transport)
        if self._early:
            self._next.data_received(bytes(self._early))
