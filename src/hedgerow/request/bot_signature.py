"""
Verification of bot signatures: HTTP message signatures (RFC 9421) with Ed25519, as in Web Bot Auth.

A bot signs parts of its request, including `@authority`. It publishes the key at the host in its `Signature-Agent`
header. The key is fetched in the background; until then the outcome is pending. The signed text is rebuilt from the
request as received, so a changed header fails verification.

A signature proves who made it, and not who sends it: whoever is sent one may send it on. So it counts only for the
site's own hosts, only with a nonce, only once, and for at most five minutes.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from math import inf
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hedgerow.errors import DECODE_ERRORS
from hedgerow.request.bots import KnownBot

TAG = "web-bot-auth"
DIRECTORY = "/.well-known/http-message-signatures-directory"

SignatureOutcome = Literal["verified", "pending", "unknown", "forged", "expired", "replayed", "misdirected"]
RawHeaders = Sequence[tuple[bytes, bytes]]
MarkUsed = Callable[[bytes, float, float], bool]
"""Records a name until a time, given the time now. Returns False if it is recorded already."""

_MAX_HEADER_LENGTH = 4096
_MAX_COMPONENTS = 32
_MAX_NONCES = 100_000
_MAX_SIGNERS = 200
_MAX_KEYS = 50
_CLOCK_SKEW = 60.0
_MAX_AGE = 300.0
_DIRECTORY_LIFETIME = 3600.0
_RETRY_AFTER = 300.0
_KEY_BYTES = 32

# The used parts of structured fields (RFC 8941). Possessive, so that matching takes linear time.
_NAME = r"[a-z*][a-z0-9_.*-]*+"
_STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*+"'
_BARE = rf"(?:{_STRING}|:[A-Za-z0-9+/=]*+:|\?[01]|-?\d{{1,15}}(?:\.\d{{1,3}})?|[A-Za-z*][!#$%&'*+.^_`|~:/0-9A-Za-z-]*+)"
_PARAMETERS = rf"(?:;\ *+{_NAME}(?:={_BARE})?)*+"
_INNER = rf"\(\ *+(?:{_STRING}{_PARAMETERS}\ *+)*+\){_PARAMETERS}"
_MEMBER = re.compile(rf"({_NAME})=({_INNER}|{_BARE}{_PARAMETERS})[ \t]*+(,[ \t]*+|\Z)")
_COMPONENT = re.compile(rf"({_STRING})({_PARAMETERS})")
_PARAMETER = re.compile(rf";\ *+({_NAME})(?:=({_BARE}))?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Request(NamedTuple):
    """The parts of a request that a signature may cover. *target* is path and query as sent."""

    at: float
    method: str
    scheme: str
    host: str
    target: str
    headers: RawHeaders


class Signed(NamedTuple):
    """The claimed signer (None if unknown) and the outcome of the verification."""

    bot: KnownBot | None
    outcome: SignatureOutcome


def members(text: str) -> dict[str, str] | None:
    """Return the members of a structured dictionary as written, or None if it is malformed."""
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        member = _MEMBER.match(text, position)
        if member is None:
            return None
        values[member[1]] = member[2]
        position = member.end()
        if member[3] and position == len(text):
            return None
    return values


def _parameters(text: str) -> dict[str, str]:
    return {name: value for name, value in _PARAMETER.findall(text)}  # noqa: C416 - findall gives tuples of two


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] == '"' else ""


def _joined(headers: RawHeaders, name: bytes) -> str | None:
    values = [value.decode("latin-1").strip() for key, value in headers if key == name]
    return ", ".join(values) if values else None


def authority(scheme: str, host: str) -> str:
    """Return the host in its signed form: lower case, without the default port."""
    return host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, "\n"))


def _component(request: Request, name: str, parameters: Mapping[str, str]) -> str | None:
    """Return the value of a signed component, or None if it is missing or not supported."""
    if name.startswith("@"):
        if parameters:
            return None
        path, question, query = request.target.partition("?")
        host = authority(request.scheme, request.host)
        return {
            "@method": request.method,
            "@authority": host,
            "@scheme": request.scheme,
            "@path": path or "/",
            "@query": "?" + query,
            "@request-target": request.target,
            "@target-uri": f"{request.scheme}://{host}{path}{question}{query}",
        }.get(name)
    value = _joined(request.headers, name.encode("latin-1"))
    if not parameters or value is None:
        return value
    if set(parameters) != {"key"}:
        return None
    return (members(value) or {}).get(_unquoted(parameters["key"]))


class _Input(NamedTuple):
    """A member of Signature-Input: the signed text (*base*) and the parameters of the signature."""

    base: bytes
    covered: frozenset[str]
    agent_key: str
    created: int
    expires: int
    key_id: str
    nonce: str


def _parse_input(request: Request, raw: str) -> _Input | None:
    inner, _, outer = raw.rpartition(")")
    parameters = _parameters(outer)
    components = _COMPONENT.findall(inner)
    if not components or len(components) > _MAX_COMPONENTS:
        return None
    lines, covered, agent_key = [], set(), ""
    for quoted, modifiers in components:
        name, modified = _unquoted(quoted), _parameters(modifiers)
        value = _component(request, name, modified)
        if value is None or quoted + modifiers in covered:
            return None
        if name == "signature-agent":
            agent_key = _unquoted(modified.get("key", ""))
        covered |= {quoted + modifiers, name}
        lines.append(f"{quoted}{modifiers}: {value}")
    lines.append(f'"@signature-params": {raw}')
    created, expires = parameters.get("created", ""), parameters.get("expires", "")
    if not created.isdigit() or not expires.isdigit() or parameters.get("alg", '"ed25519"') != '"ed25519"':
        return None
    return _Input(
        "\n".join(lines).encode("latin-1"), frozenset(covered), agent_key, int(created), int(expires),
        _unquoted(parameters.get("keyid", "")), _unquoted(parameters.get("nonce", "")),
    )  # fmt: skip


def signer_of(header: str, key: str, *, insecure: bool = False) -> str:
    """
    Return the host in a Signature-Agent header, with a non-default port, or "" if the header is invalid.

    >>> signer_of('"https://chatgpt.com"', ""), signer_of('a="https://Bot.example:8443"', "a"), signer_of('"x"', "")
    ('chatgpt.com', 'bot.example:8443', '')
    """
    text = header
    if not header.startswith('"'):
        values = members(header) or {}
        text = values.get(key, "") if key else next(iter(values.values()), "")
    quoted = re.match(_STRING, text)
    try:
        parts = urlsplit(_unquoted(quoted[0])) if quoted else urlsplit("")
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ({"https", "http"} if insecure else {"https"}) or parts.username is not None:
        return ""
    host = parts.hostname or ""
    return f"{host}:{port}" if port is not None and f":{port}" != _DEFAULT_PORTS[parts.scheme] else host


class PublicKey(NamedTuple):
    key: Ed25519PublicKey
    since: float = -inf
    until: float = inf


def thumbprint(x: str) -> str:
    """Return the JWK thumbprint of an Ed25519 key (RFC 7638, RFC 8037)."""
    text = f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'
    return urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()


def public_key(x: str) -> Ed25519PublicKey | None:
    """Return the key whose JWK member `x` is *x* (base64url), or None if that is invalid."""
    try:
        raw = urlsafe_b64decode(x + "=" * (-len(x) % 4))
        return Ed25519PublicKey.from_public_bytes(raw) if len(raw) == _KEY_BYTES else None
    except (ValueError, binascii.Error):
        return None


def read_directory(text: bytes) -> dict[str, PublicKey] | None:
    """Return the Ed25519 keys of a JWK set by thumbprint, or None if it is malformed."""
    try:
        document: Any = msgspec.json.decode(text)
        keys: dict[str, PublicKey] = {}
        for jwk in document["keys"][:_MAX_KEYS]:
            if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519" and isinstance(jwk.get("x"), str):
                key = public_key(jwk["x"])
                if key is not None:
                    since, until = (_seconds(jwk.get(name), default) for name, default in (("nbf", -inf), ("exp", inf)))
                    keys[thumbprint(jwk["x"].rstrip("="))] = PublicKey(key, since, until)
    except (*DECODE_ERRORS, KeyError, TypeError, AttributeError, ValueError):
        return None
    return keys


def _seconds(value: object, default: float) -> float:
    if not isinstance(value, int | float):
        return default
    # Some directories use milliseconds. As seconds, such a value would be after the year 5000.
    return value / 1000 if value > 1e11 else float(value)  # noqa: PLR2004


class _Directory(NamedTuple):
    keys: Mapping[str, PublicKey]
    until: float


class Keys:
    """
    The known keys of signers, and the nonces used.

    *ask* starts the download of a host's keys; it must not block. *configured* are the keys of the settings by
    thumbprint, each with its bot.
    """

    def __init__(self, ask: Callable[[str, float], None] | None = None) -> None:
        self.ask = ask
        self.configured: Mapping[str, tuple[KnownBot, PublicKey]] = {}
        self._directories: dict[str, _Directory] = {}
        self._asked_at: dict[str, float] = {}
        self.mark_used: MarkUsed | None = None
        """Records a nonce for all processes of a site; without it, this process does so for itself."""
        self._used_nonces: dict[bytes, None] = {}

    def find(self, signer: str, key_id: str, at: float) -> PublicKey | None:
        """Return a signer's key, or None if it is not known (yet). A missing or outdated key is requested."""
        directory = self._directories.get(signer)
        key = directory.keys.get(key_id) if directory is not None else None
        if directory is None or directory.until < at or key is None:
            self._request(signer, at)
        return key

    def is_read(self, signer: str) -> bool:
        return signer in self._directories

    def _request(self, signer: str, at: float) -> None:
        if self.ask is not None and at - self._asked_at.get(signer, -inf) >= _RETRY_AFTER:
            if len(self._asked_at) >= _MAX_SIGNERS:
                del self._asked_at[next(iter(self._asked_at))]
            self._asked_at[signer] = at
            self.ask(signer, at)

    def learn(self, signer: str, keys: Mapping[str, PublicKey], at: float) -> None:
        self._directories.pop(signer, None)
        while len(self._directories) >= _MAX_SIGNERS:
            del self._directories[next(iter(self._directories))]
        self._directories[signer] = _Directory(dict(keys), at + _DIRECTORY_LIFETIME)

    def use_nonce(self, key_id: str, nonce: str, until: float, at: float) -> bool:
        """Record a nonce of a signature that is valid until *until*. Return False if it has been used before."""
        name = sha256(f"{key_id}\0{nonce}".encode("latin-1")).digest()
        if self.mark_used is not None:
            return self.mark_used(name, until, at)
        if name in self._used_nonces:
            return False
        if len(self._used_nonces) >= _MAX_NONCES:
            del self._used_nonces[next(iter(self._used_nonces))]
        self._used_nonces[name] = None
        return True


class Signatures:
    """
    Verifies signatures.

    *known* are the signing bots by host, *hosts* the site's own hosts. With *any_signer* the keys of other hosts are
    fetched, too. With *insecure* a signer's address may be plain HTTP.
    """

    def __init__(
        self,
        keys: Keys,
        known: Mapping[str, KnownBot],
        hosts: Collection[str],
        *,
        any_signer: bool = False,
        insecure: bool = False,
    ) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._keys = keys
        self._known = known
        self._any_signer = any_signer
        self._insecure = insecure

    def check(self, request: Request) -> Signed | None:
        """Verify the signature of a request. Return None if it has no Web Bot Auth signature with a nonce."""
        inputs_header = _joined(request.headers, b"signature-input") or ""
        signature = _joined(request.headers, b"signature") or ""
        if (
            f'"{TAG}"' not in inputs_header
            or len(inputs_header) > _MAX_HEADER_LENGTH
            or len(signature) > _MAX_HEADER_LENGTH
        ):
            return None
        inputs = members(inputs_header) or {}
        label = next(
            (n for n, raw in inputs.items() if _parameters(raw.rpartition(")")[2]).get("tag") == f'"{TAG}"'), ""
        )
        signed = _parse_input(request, inputs[label]) if label and inputs[label].startswith("(") else None
        if signed is None or not signed.nonce or not signed.covered & {"@authority", "@target-uri"}:
            return None
        bot, key, outcome = self._key(request, signed)
        if bot is not None and authority(request.scheme, request.host) not in self._hosts:
            return Signed(bot, "misdirected")
        if key is None:
            return Signed(bot, outcome) if bot is not None else None
        if not self._is_current(request.at, signed, key):
            return Signed(bot, "expired")
        if not _verifies(key, (members(signature) or {}).get(label, ""), signed.base):
            return Signed(bot, "forged")
        until = signed.created + _MAX_AGE + _CLOCK_SKEW
        if not self._keys.use_nonce(signed.key_id, signed.nonce, until, request.at):
            return Signed(bot, "replayed")
        return Signed(bot, "verified")

    def _key(self, request: Request, signed: _Input) -> tuple[KnownBot | None, PublicKey | None, SignatureOutcome]:
        configured = self._keys.configured.get(signed.key_id)
        if configured is not None:
            return *configured, "verified"
        header = _joined(request.headers, b"signature-agent")
        if header is None or len(header) > _MAX_HEADER_LENGTH or "signature-agent" not in signed.covered:
            return None, None, "unknown"
        signer = signer_of(header, signed.agent_key, insecure=self._insecure)
        bot = self._known.get(signer)
        if bot is None and signer and self._any_signer and (":" not in signer or self._insecure):
            bot = KnownBot(signer, "other", signer=signer)
        if bot is None:
            return None, None, "unknown"
        # Before `find`, which requests the keys: they may arrive in the background before it returns.
        outcome: SignatureOutcome = "unknown" if self._keys.is_read(signer) else "pending"
        return bot, self._keys.find(signer, signed.key_id, request.at), outcome

    @staticmethod
    def _is_current(at: float, signed: _Input, key: PublicKey) -> bool:
        return (
            signed.created <= at + _CLOCK_SKEW
            and at < min(signed.expires, signed.created + _MAX_AGE) + _CLOCK_SKEW
            and signed.created < signed.expires
            and key.since <= at + _CLOCK_SKEW
            and at <= key.until + _CLOCK_SKEW
        )


def _verifies(key: PublicKey, signature: str, base: bytes) -> bool:
    try:
        raw = binascii.a2b_base64(signature.strip(":"), strict_mode=True)
        key.key.verify(raw, base)
    except (InvalidSignature, ValueError):
        return False
    # base64 has spare bits at its end. Only the canonical encoding is accepted.
    return signature == f":{binascii.b2a_base64(raw, newline=False).decode()}:"
