"""Bot signatures, made by an independent package: valid ones verify, altered ones do not."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.request.bot_signature import (
    Keys,
    Request,
    Signatures,
    members,
    public_key,
    read_directory,
    signer_of,
    thumbprint,
)  # fmt: skip
from hedgerow.request.bots import KnownBot

AT = 1_800_000_000.0
HOSTS = ("example.org", "example.org:8443", "other.example")
BOT = KnownBot("Example agent", "ai-assistant", signer="agent.example")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
X = base64.urlsafe_b64encode(KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).rstrip(b"=").decode()
DIRECTORY = json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": X, "kid": "any"}, {"kty": "RSA"}]}).encode()


class Message:
    """A request in the form that the package expects."""

    def __init__(self, headers, method="GET", url="https://example.org/page?x=1") -> None:
        self.headers, self.method, self.url = headers, method, url


class Resolver(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id):  # noqa: ARG002 - the package's shape
        return KEY


def signed(*, covered=("@authority", "signature-agent"), created=AT - 5, expires=AT + 60, **params):
    message = Message({"Signature-Agent": '"https://agent.example"', "Host": "example.org", "Accept": "*/*"})
    signer = HTTPMessageSigner(signature_algorithm=algorithms.ED25519, key_resolver=Resolver())
    signer.sign(
        message, key_id=params.pop("key_id", thumbprint(X)), created=datetime.fromtimestamp(created, UTC),
        expires=datetime.fromtimestamp(expires, UTC), covered_component_ids=covered,
        **{"tag": "web-bot-auth", "nonce": "n1", "include_alg": False, **params},
    )  # fmt: skip
    return {name.lower(): value for name, value in message.headers.items()}


def request(headers, at=AT, method="GET", host="example.org", target="/page?x=1", scheme="https"):
    return Request(at, method, scheme, host, target, [(k.encode(), v.encode()) for k, v in headers.items()])


def checker(**options):
    keys = Keys()
    keys.learn("agent.example", read_directory(DIRECTORY), AT)
    return Signatures(keys, {"agent.example": BOT}, HOSTS, **options)


def outcome(headers, **more):
    found = checker().check(request(headers, **more))
    return found.outcome if found else None


@pytest.mark.parametrize(
    "covered",
    [
        ("@authority", "signature-agent"),
        ("@target-uri", "signature-agent"),
        ("@method", "@authority", "@path", "@query", "@scheme", "accept", "signature-agent"),
        ("@request-target", "@authority", "signature-agent"),
    ],
)
def test_a_signature_of_an_independent_package_verifies(covered):
    found = checker().check(request(signed(covered=covered)))
    assert found is not None
    assert (found.bot, found.outcome) == (BOT, "verified")


def test_the_signed_host_is_lower_case_without_default_port():
    assert outcome(signed(), host="Example.org:443") == "verified"
    assert outcome(signed(), host="example.org:8443") == "forged"


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"accept": "text/html"}, {}),
        ({}, {"method": "POST"}),
        ({}, {"target": "/other"}),
        ({}, {"target": "/page"}),
        ({}, {"host": "other.example"}),
    ],
)
def test_a_changed_request_fails_verification(change, more):
    headers = signed(covered=("@authority", "@method", "@path", "@query", "accept", "signature-agent"))
    assert outcome(headers) == "verified"
    assert outcome({**headers, **change}, **more) == "forged"


def test_a_removed_signed_header_makes_the_signature_useless():
    headers = signed(covered=("@authority", "accept", "signature-agent"))
    del headers["accept"]
    assert outcome(headers) is None


@given(st.data())
def test_a_changed_signature_never_verifies(data):
    headers = signed()
    name = data.draw(st.sampled_from(["signature", "signature-input", "signature-agent"]))
    value = headers[name]
    place = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    changed = value[:place] + other + value[place + 1 :]
    if changed != value:
        assert outcome({**headers, name: changed}) != "verified"


@pytest.mark.parametrize(
    ("created", "expires"),
    [(AT - 500, AT - 61), (AT + 61, AT + 500), (AT - 361, AT + 90_000), (AT + 10, AT + 5)],
)
def test_a_signature_outside_its_lifetime_is_expired(created, expires):
    assert outcome(signed(created=created, expires=expires)) == "expired"


def test_a_clock_may_be_a_minute_off():
    assert outcome(signed(created=AT + 55, expires=AT + 100)) == "verified"
    assert outcome(signed(created=AT - 100, expires=AT - 55)) == "verified"
    assert outcome(signed(created=AT - 300, expires=AT + 90_000)) == "verified"


def test_a_nonce_is_accepted_once():
    one = checker()
    assert one.check(request(signed())).outcome == "verified"
    assert one.check(request(signed())).outcome == "replayed"
    assert one.check(request(signed(nonce="n2"))).outcome == "verified"
    assert one.check(request(signed(nonce=None))) is None


def test_a_forged_signature_uses_up_no_nonce():
    one = checker()
    headers = signed()
    assert one.check(request(headers, host="other.example")).outcome == "forged"
    assert one.check(request(headers)).outcome == "verified"


def test_a_signature_without_signer_host_or_tag_is_ignored():
    assert outcome(signed(covered=("@authority",))) is None
    assert outcome(signed(covered=("accept", "signature-agent"))) is None
    assert outcome(signed(tag="other")) is None
    assert outcome({}) is None


def test_the_outcome_is_pending_even_if_the_keys_arrive_at_once():
    keys = Keys()
    keys.ask = lambda signer, at: keys.learn(signer, read_directory(DIRECTORY), at)
    one = Signatures(keys, {"agent.example": BOT}, HOSTS)
    assert [one.check(request(signed())).outcome for _ in range(2)] == ["pending", "verified"]


def test_keys_are_requested_once_and_the_outcome_is_pending_meanwhile():
    asked = []
    keys = Keys(lambda signer, at: asked.append((signer, at)))
    one = Signatures(keys, {"agent.example": BOT}, HOSTS)
    assert [one.check(request(signed())).outcome for _ in range(3)] == ["pending"] * 3
    assert asked == [("agent.example", AT)]
    keys.learn("agent.example", {}, AT)
    assert one.check(request(signed())).outcome == "unknown"
    one.check(request(signed(created=AT + 300, expires=AT + 360), at=AT + 301))
    assert len(asked) == 2, "a key may be new: asked again after a while"


def test_keys_of_unknown_signers_are_fetched_only_if_any_signer_may_be():
    asked = []
    headers = {**signed(), "signature-agent": '"https://elsewhere.example"'}
    for any_signer, found in ((False, []), (True, ["elsewhere.example"])):
        keys = Keys(lambda signer, _: asked.append(signer))
        Signatures(keys, {"agent.example": BOT}, HOSTS, any_signer=any_signer).check(request(headers))
        assert asked == found
    keys = Keys(lambda signer, _: asked.append(signer))
    headers["signature-agent"] = '"https://elsewhere.example:8080"'
    assert Signatures(keys, {}, HOSTS, any_signer=True).check(request(headers)) is None
    assert asked == ["elsewhere.example"]


def test_a_key_of_the_settings_needs_no_directory():
    keys = Keys()
    keys.configured = {thumbprint(X): (BOT, next(iter(read_directory(DIRECTORY).values())))}
    found = Signatures(keys, {}, HOSTS).check(request(signed(covered=("@authority",))))
    assert (found.bot, found.outcome) == (BOT, "verified")


def test_signature_agent_may_be_a_dictionary():
    """In later drafts each signature names its own member."""
    assert signer_of('sig1="https://agent.example"', "sig1") == "agent.example"
    assert signer_of('a="https://a.example", b="https://b.example";x', "b") == "b.example"
    base = (
        '"@authority": example.org\n"signature-agent";key="sig1": "https://agent.example"\n'
        f'"@signature-params": ("@authority" "signature-agent";key="sig1");created={AT:.0f};expires={AT + 60:.0f};'
        f'keyid="{thumbprint(X)}";nonce="n";tag="web-bot-auth"'
    )
    signature = base64.b64encode(KEY.sign(base.encode())).decode()
    headers = {
        "signature-agent": 'sig1="https://agent.example"',
        "signature-input": "sig1=" + base.rpartition('params": ')[2],
        "signature": f"sig1=:{signature}:",
    }
    assert outcome(headers) == "verified"


@pytest.mark.parametrize(
    "agent",
    [
        '"http://agent.example"', '"https://user@agent.example"', '"ftp://agent.example"', '"agent.example"', "", '"',
        '"https://[::1"', "https://agent.example", '"https://agent.example:99999"', '"data:text/plain,x"',
    ],
)  # fmt: skip
def test_an_invalid_signature_agent_names_no_signer(agent):
    assert signer_of(agent, "") == ""


@given(st.text(st.characters(max_codepoint=255), max_size=80))
def test_arbitrary_signature_headers_are_handled_without_an_error(text):
    members(text)
    signer_of(text, "a")
    outcome({"signature-input": text + '"web-bot-auth"', "signature": text, "signature-agent": text})


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": {"a": 1}}', b"\xff"])
def test_a_malformed_key_directory_is_rejected(text):
    assert read_directory(text) is None


def test_an_expired_key_is_not_used():
    old = json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": X, "exp": int(AT - 100) * 1000}]}).encode()
    keys = Keys()
    keys.learn("agent.example", read_directory(old), AT)
    assert Signatures(keys, {"agent.example": BOT}, HOSTS).check(request(signed())).outcome == "expired"


def test_the_thumbprint_matches_rfc_8037():
    assert thumbprint("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo") == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_malformed_key_is_rejected():
    assert public_key(X) is not None
    assert public_key("abc") is None
    assert public_key("é") is None
