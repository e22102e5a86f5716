"""What checking a bot's signature costs, under a key that is known."""

from __future__ import annotations

import base64
import itertools

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.timing import measure
from hedgerow.request.bot_signature import Keys, PublicKey, Request, Signatures, thumbprint
from hedgerow.request.bots import KnownBot

AT = 1.8e9


def main() -> None:
    secret = Ed25519PrivateKey.generate()
    public = secret.public_key()
    x = base64.urlsafe_b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).rstrip(b"=").decode()
    keys = Keys()
    keys.learn("bot.example", {thumbprint(x): PublicKey(public)}, AT)
    # A signature counts once; here it counts each time.
    keys.mark_used = lambda *_: True
    signatures = Signatures(
        keys, {"bot.example": KnownBot("bot", "other", signer="bot.example")}, ("example.org", "other.example")
    )
    params = (
        f'("@authority" "signature-agent");created={AT:.0f};expires={AT + 60:.0f};keyid="{thumbprint(x)}";'
        'nonce="n1";tag="web-bot-auth"'
    )
    base = f'"@authority": example.org\n"signature-agent": "https://bot.example"\n"@signature-params": {params}'
    made = base64.b64encode(secret.sign(base.encode())).decode()

    def request(host: str) -> Request:
        headers = [
            (b"host", host.encode()), (b"signature-agent", b'"https://bot.example"'),
            (b"signature-input", f"sig={params}".encode()), (b"signature", f"sig=:{made}:".encode()),
        ]  # fmt: skip
        return Request(AT, "GET", "https", host, "/page", headers)

    good, bad, old = request("example.org"), request("other.example"), request("example.org")._replace(at=AT + 999)
    assert [signatures.check(one).outcome for one in (good, bad, old)] == ["verified", "forged", "expired"]  # type: ignore[union-attr]
    plain = good._replace(headers=[])
    ticks = itertools.count()
    found = measure(
        {
            "a good signature": lambda: signatures.check(good),
            "a forged one": lambda: signatures.check(bad),
            "an old one": lambda: signatures.check(old),
            "none": lambda: signatures.check(plain),
            "(the clock)": lambda: next(ticks),
        }
    )
    for name, seconds in found.items():
        print(f"{name:48} {seconds * 1e6:8.2f} µs")
