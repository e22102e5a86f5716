"""
Signatures of bots: HTTP message signatures (RFC 9421) by Ed25519, as Web Bot Auth uses them.

A bot signs parts of its request, `@authority` among them, under a key that it publishes at the host which its
`Signature-Agent` names. The key is looked up beside the request; until it is there, nothing is said. What is signed is
rebuilt from the request as it came, so a changed header is a signature that does not fit.

A signature says when it was made and until when it is good. One with a nonce is good once.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from math import inf
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hedgerow.request.bots import KnownBot

TAG = "web-bot-auth"
DIRECTORY = "/.well-known/http-message-signatures-directory"

SignatureOutcome = Literal["verified", "pending", "unknown", "forged", "expired", "replayed"]
RawHeaders = Sequence[tuple[bytes, bytes]]

_LONGEST_HEADER = 4096
_MOST_COMPONENTS = 32
_MOST_NONCES = 100_000
_MOST_SIGNERS = 200
_MOST_KEYS = 50
_SKEW = 60.0
_LONGEST_LIFE = 86_400.0
_DIRECTORY_FOR = 3600.0
_ASK_AGAIN = 300.0
_KEY_BYTES = 32

# Structured fields (RFC 8941), as far as they are used here; possessive, so that no header is gone over twice.
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
    """What of a request may be signed. *target* is path and query as they were sent."""

    at: float
    method: str
    scheme: str
    host: str
    target: str
    headers: RawHeaders


class Signed(NamedTuple):
    """Who a signature says has made it, and whether that is true. *bot* is None where we do not know the signer."""

    bot: KnownBot | None
    outcome: SignatureOutcome


def members(text: str) -> dict[str, str] | None:
    """The members of a dictionary, as they are written; None where it is not well formed."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        member = _MEMBER.match(text, position)
        if member is None:
            return None
        found[member[1]] = member[2]
        position = member.end()
        if member[3] and position == len(text):
            return None
    return found


def _parameters(text: str) -> dict[str, str]:
    return {name: value for name, value in _PARAMETER.findall(text)}  # noqa: C416 - findall gives tuples of two


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] == '"' else ""


def _joined(headers: RawHeaders, name: bytes) -> str | None:
    values = [value.decode("latin-1").strip() for key, value in headers if key == name]
    return ", ".join(values) if values else None


def authority(scheme: str, host: str) -> str:
    """The host as it is signed: in lower case, without the scheme's usual port."""
    plain = host.lower()
    return plain.removesuffix(_DEFAULT_PORTS.get(scheme, "\n"))


def _component(request: Request, name: str, parameters: Mapping[str, str]) -> str | None:
    """The value of a component, or None where we do not know it."""
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
    """A member of Signature-Input: the text that was signed, and what it says about the signature."""

    base: bytes
    covered: frozenset[str]
    agent_key: str
    created: int
    expires: int
    key_id: str
    nonce: str


def _read(request: Request, raw: str) -> _Input | None:
    inner, _, outer = raw.rpartition(")")
    parameters = _parameters(outer)
    components = _COMPONENT.findall(inner)
    if not components or len(components) > _MOST_COMPONENTS:
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
    The host that a Signature-Agent header names, with its port where that is not the usual one; "" where it is none.

    >>> signer_of('"https://chatgpt.com"', ""), signer_of('a="https://Bot.example:8443"', "a"), signer_of('"x"', "")
    ('chatgpt.com', 'bot.example:8443', '')
    """
    text = header
    if not header.startswith('"'):
        found = members(header) or {}
        text = found.get(key, "") if key else next(iter(found.values()), "")
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
    """A key, and the times between which it is good."""

    key: Ed25519PublicKey
    since: float = -inf
    until: float = inf


def thumbprint(x: str) -> str:
    """The name of an Ed25519 key: its JWK thumbprint (RFC 7638, RFC 8037)."""
    text = f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'
    return urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()


def public_key(x: str) -> Ed25519PublicKey | None:
    """The key whose `x` is *x*, in base64url; None where that is none."""
    try:
        raw = urlsafe_b64decode(x + "=" * (-len(x) % 4))
        return Ed25519PublicKey.from_public_bytes(raw) if len(raw) == _KEY_BYTES else None
    except (ValueError, binascii.Error):
        return None


def read_directory(text: bytes) -> dict[str, PublicKey] | None:
    """The Ed25519 keys of a key directory (a JWK set) by their thumbprints; None where it is no such directory."""
    try:
        found: Any = msgspec.json.decode(text)
        listed = found["keys"]
        keys: dict[str, PublicKey] = {}
        for one in listed[:_MOST_KEYS]:
            if one.get("kty") == "OKP" and one.get("crv") == "Ed25519" and isinstance(one.get("x"), str):
                key = public_key(one["x"])
                if key is not None:
                    # Some write the times in milliseconds; what is beyond the year 5000 is.
                    since, until = (_seconds(one.get(name), usual) for name, usual in (("nbf", -inf), ("exp", inf)))
                    keys[thumbprint(one["x"].rstrip("="))] = PublicKey(key, since, until)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError):
        return None
    return keys


def _seconds(value: object, usual: float) -> float:
    if not isinstance(value, int | float):
        return usual
    return value / 1000 if value > 1e11 else float(value)  # noqa: PLR2004


class _Directory(NamedTuple):
    keys: Mapping[str, PublicKey]
    until: float


class Keys:
    """
    The keys of signers, as far as they are known. *ask* is called with a host whose keys are wanted; it must not wait.

    *configured* are keys that the settings name, by thumbprint, each with the bot that has it.
    """

    def __init__(self, ask: Callable[[str, float], None] | None = None) -> None:
        self.ask = ask
        self.configured: Mapping[str, tuple[KnownBot, PublicKey]] = {}
        self._directories: dict[str, _Directory] = {}
        self._asked: dict[str, float] = {}
        self._spent: dict[tuple[str, str], None] = {}

    def of(self, signer: str, key_id: str, at: float) -> PublicKey | None:
        """The key, or None where it is not known: yet, or because the signer has none of that name."""
        directory = self._directories.get(signer)
        found = directory.keys.get(key_id) if directory is not None else None
        if directory is None or directory.until < at or found is None:
            self._want(signer, at)
        return found

    def is_read(self, signer: str) -> bool:
        return signer in self._directories

    def _want(self, signer: str, at: float) -> None:
        if self.ask is not None and at - self._asked.get(signer, -inf) >= _ASK_AGAIN:
            if len(self._asked) >= _MOST_SIGNERS:
                del self._asked[next(iter(self._asked))]
            self._asked[signer] = at
            self.ask(signer, at)

    def learn(self, signer: str, keys: Mapping[str, PublicKey], at: float) -> None:
        """The keys that a signer publishes."""
        self._directories.pop(signer, None)
        while len(self._directories) >= _MOST_SIGNERS:
            del self._directories[next(iter(self._directories))]
        self._directories[signer] = _Directory(dict(keys), at + _DIRECTORY_FOR)

    def spend(self, key_id: str, nonce: str) -> bool:
        """Use a nonce; False where it has been used. Only nonces under good signatures are kept."""
        if (key_id, nonce) in self._spent:
            return False
        if len(self._spent) >= _MOST_NONCES:
            del self._spent[next(iter(self._spent))]
        self._spent[key_id, nonce] = None
        return True


class Signatures:
    """
    Checks signatures. *known* are the bots that sign, by their host; *any_signer*: others are looked up as well.

    *insecure*: a signer may be named by http.
    """

    def __init__(
        self, keys: Keys, known: Mapping[str, KnownBot], *, any_signer: bool = False, insecure: bool = False
    ) -> None:
        self._keys = keys
        self._known = known
        self._any_signer = any_signer
        self._insecure = insecure

    def check(self, request: Request) -> Signed | None:
        """What the signature of a request proves; None where it has none of ours to check."""
        given = _joined(request.headers, b"signature-input") or ""
        signature = _joined(request.headers, b"signature") or ""
        if f'"{TAG}"' not in given or len(given) > _LONGEST_HEADER or len(signature) > _LONGEST_HEADER:
            return None
        inputs = members(given) or {}
        label = next(
            (n for n, raw in inputs.items() if _parameters(raw.rpartition(")")[2]).get("tag") == f'"{TAG}"'), ""
        )
        found = _read(request, inputs[label]) if label and inputs[label].startswith("(") else None
        if found is None or not found.covered & {"@authority", "@target-uri"}:
            return None
        bot, key, outcome = self._key(request, found)
        if key is None:
            return Signed(bot, outcome) if bot is not None else None
        if not self._is_current(request.at, found, key):
            return Signed(bot, "expired")
        if not _verifies(key, (members(signature) or {}).get(label, ""), found.base):
            return Signed(bot, "forged")
        if found.nonce and not self._keys.spend(found.key_id, found.nonce):
            return Signed(bot, "replayed")
        return Signed(bot, "verified")

    def _key(self, request: Request, found: _Input) -> tuple[KnownBot | None, PublicKey | None, SignatureOutcome]:
        configured = self._keys.configured.get(found.key_id)
        if configured is not None:
            return *configured, "verified"
        header = _joined(request.headers, b"signature-agent")
        if header is None or len(header) > _LONGEST_HEADER or "signature-agent" not in found.covered:
            return None, None, "unknown"
        signer = signer_of(header, found.agent_key, insecure=self._insecure)
        bot = self._known.get(signer)
        if bot is None and signer and self._any_signer and (":" not in signer or self._insecure):
            bot = KnownBot(signer, "other", signer=signer)
        if bot is None:
            return None, None, "unknown"
        key = self._keys.of(signer, found.key_id, request.at)
        return bot, key, "unknown" if self._keys.is_read(signer) else "pending"

    @staticmethod
    def _is_current(at: float, found: _Input, key: PublicKey) -> bool:
        return (
            found.created <= at + _SKEW
            and at <= found.expires + _SKEW
            and 0 < found.expires - found.created <= _LONGEST_LIFE
            and key.since <= at + _SKEW
            and at <= key.until + _SKEW
        )


def _verifies(key: PublicKey, signature: str, base: bytes) -> bool:
    try:
        raw = binascii.a2b_base64(signature.strip(":"), strict_mode=True)
        key.key.verify(raw, base)
    except (InvalidSignature, ValueError):
        return False
    # base64 has spare bits at its end: only one of their spellings counts.
    return signature == f":{binascii.b2a_base64(raw, newline=False).decode()}:"
