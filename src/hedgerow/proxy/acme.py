"""
Certificates by ACME (RFC 8555), such as those of Let's Encrypt: obtained, kept in the state directory, and renewed.

    answers     what the listener for plain http answers under `/.well-known/acme-challenge/` (http-01)
    AcmeThread  obtains the certificate, renews it when a third of its life is left, and tries again after failures

Key and certificate are in one file, so that a new pair replaces the old one in one step; `proxy.tls` notices. Only the
configured directory is asked. A failure keeps the certificate that is there.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hedgerow import __version__
from hedgerow.errors import HedgerowError, TlsError
from hedgerow.proxy.tls import read_pair
from hedgerow.settings import Settings
from hedgerow.web.paths import state_directory, temporary_file

log = logging.getLogger("hedgerow.server")

CHALLENGE_PATH = b"/.well-known/acme-challenge/"
_MAX_WAIT = 3600.0
_FIRST_RETRY, _LAST_RETRY = 300.0, 43_200.0
_ORDER_SECONDS = 180.0
_TIMEOUT = 30
_PLACEHOLDER_DAYS = 30
_LEFT_SHARE, _JITTER_SHARE = 1 / 3, 1 / 30
_DAY = 86_400.0


class Answers:
    """What the authority is told when it asks for a token, by path."""

    def __init__(self) -> None:
        self.of: dict[bytes, bytes] = {}


def acme_folder(settings: Settings) -> Path:
    """Return the folder of account and certificate. Each directory has its own: test certificates stay apart."""
    name = sha256(settings.tls.acme_directory.encode()).hexdigest()[:8]
    return state_directory(settings) / "acme" / name


def certificate_path(settings: Settings) -> Path:
    return acme_folder(settings) / "certificate.pem"


def prepare(settings: Settings) -> Path:
    """
    Return the file with key and certificate. Before the first one is obtained, it is one that browsers do not accept.

    Raises HedgerowError if the packages for ACME are missing.
    """
    try:
        import acme.client  # noqa: F401 - found out before the start
    except ModuleNotFoundError as error:
        raise HedgerowError(f"certificates by ACME need {error.name}: pip install 'hedgerow[acme]'") from None
    path = certificate_path(settings)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _write(path, _self_signed(settings.tls.acme))
    except OSError as error:
        raise TlsError(f"{path} cannot be written: {error.strerror}") from None
    return path


def renewal_time(path: Path, names: tuple[str, ...], jitter: float) -> float:
    """
    Return when a new certificate is to be obtained: at once if this one is none of an authority or has other names.

    *jitter* is from 0 to 1: many machines that started together do not ask at the same moment.
    """
    facts = read_pair(path, path)
    first = x509.load_pem_x509_certificates(path.read_bytes())[0]
    if first.issuer == first.subject or {*facts.names} != {*names}:
        return 0.0
    life = facts.ends_at - facts.starts_at
    return facts.ends_at - life * (_LEFT_SHARE + _JITTER_SHARE * jitter)


class AcmeThread:
    """
    Keeps the certificate of *settings* valid. *answers* is what the listener for plain http reads.

    *report* is called with what is wrong, or with "" when all is well again.
    """

    def __init__(self, settings: Settings, answers: Answers, report: Callable[[str], None]) -> None:
        self._tls = settings.tls
        self._path = certificate_path(settings)
        self._answers = answers
        self._report = report
        self._jitter = random.random()  # noqa: S311 - nothing secret
        self._failures = 0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="hedgerow-acme", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stop.wait(self.step(time.time())):
            pass

    def step(self, now: float) -> float:
        """Obtain a certificate if it is time, and return how many seconds to wait until the next step."""
        try:
            at = renewal_time(self._path, self._tls.acme, self._jitter)
        except (TlsError, OSError) as error:
            log.warning("the certificate is obtained anew: %s", error)
            at = 0.0
        if now < at:
            return min(at - now, _MAX_WAIT)
        try:
            self._obtain()
        except Exception as error:  # noqa: BLE001 - whatever the authority or the network did
            self._failures += 1
            wait = min(_FIRST_RETRY * 2.0 ** (self._failures - 1), _LAST_RETRY)
            problem = f"no certificate could be obtained from {self._tls.acme_directory}: {_reason(error)}"
            log.error("%s; next try in %.0f minutes", problem, wait / 60)  # noqa: TRY400 - a failure of others
            self._report(f"{problem}; {self._left(now)}")
            return wait
        self._failures = 0
        self._report("")
        return 1.0

    def _left(self, now: float) -> str:
        with suppress(TlsError, OSError):
            if renewal_time(self._path, self._tls.acme, 0.0) > 0:
                left = (read_pair(self._path, self._path).ends_at - now) / _DAY
                return f"the old one is valid for {left:.0f} days" if left > 0 else "the old one has expired"
        return "browsers refuse the one in use"

    def _obtain(self) -> None:
        from acme import challenges, crypto_util

        client = self._client()
        key = ec.generate_private_key(ec.SECP256R1())
        order = client.new_order(crypto_util.make_csr(_pem(key), list(self._tls.acme)))
        paths = []
        try:
            for authorization in order.authorizations:
                if authorization.body.status.name == "valid":
                    continue
                one = next((c for c in authorization.body.challenges if isinstance(c.chall, challenges.HTTP01)), None)
                if one is None:
                    raise HedgerowError(f"{authorization.body.identifier.value}: the authority offers no http-01")
                response, validation = one.chall.response_and_validation(client.net.key)
                paths.append(one.chall.path.encode())
                self._answers.of[paths[-1]] = validation.encode()
                client.answer_challenge(one, response)
            # The library compares with the local time, without a zone.
            deadline = datetime.now() + timedelta(seconds=_ORDER_SECONDS)  # noqa: DTZ005
            chain = client.poll_and_finalize(order, deadline).fullchain_pem
        finally:
            for path in paths:
                self._answers.of.pop(path, None)
            with suppress(Exception):
                client.net.session.close()
        _write(self._path, _pem(key) + chain.encode())

    def _client(self) -> Any:
        """Return a client with an account, which is made at the first time."""
        import josepy
        from acme import client, errors, messages

        path = self._path.with_name("account.pem")
        if not path.exists():
            _write(path, _pem(ec.generate_private_key(ec.SECP256R1())))
        key: Any = josepy.JWKEC.load(path.read_bytes())
        # The library is typed for True and False; what it calls also takes a file of certificates.
        trusted: Any = str(Path(self._tls.acme_ca).expanduser()) if self._tls.acme_ca else True
        network: Any = client.ClientNetwork(
            key, alg=josepy.ES256, user_agent=f"hedgerow/{__version__}", timeout=_TIMEOUT,
            verify_ssl=trusted,
        )  # fmt: skip
        made = client.ClientV2(client.ClientV2.get_directory(self._tls.acme_directory, network), network)
        try:
            email = self._tls.acme_email or None
            made.new_account(messages.NewRegistration.from_data(email=email, terms_of_service_agreed=True))
        except errors.ConflictError as known:
            made.query_registration(messages.RegistrationResource(uri=known.location, body=messages.Registration()))
        return made


def _reason(error: Exception) -> str:
    """Return what went wrong in one line; the library keeps what the authority said about each name apart."""
    failed = getattr(error, "failed_authzrs", None)
    if failed:
        found = []
        for authorization in failed:
            details = [one.error.detail for one in authorization.body.challenges if one.error is not None]
            found.append(f"{authorization.body.identifier.value}: {'; '.join(map(str, details)) or 'not validated'}")
        text = ", ".join(found)
    else:
        text = str(error) or type(error).__name__
    return ascii(" ".join(text.split())[:500])[1:-1]


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    with temporary_file(path, data) as temporary:
        temporary.replace(path)


def _self_signed(names: tuple[str, ...]) -> bytes:
    """Return key and certificate with which the listener can start before there is a real one."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hedgerow: not obtained yet")])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_PLACEHOLDER_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(key) + made.public_bytes(serialization.Encoding.PEM)
