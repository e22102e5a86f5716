"""
External providers: Turnstile, hCaptcha, reCAPTCHA. All three check an answer by the same form, "siteverify".

Only what is known about them, no network: `adapters.siteverify` asks.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlencode, urlsplit

import msgspec

Name = Literal["turnstile", "hcaptcha", "recaptcha"]

_LONGEST_ANSWER = 10_000


class Provider(msgspec.Struct, frozen=True):
    """
    One provider.

    *script* draws the widget into an element of class *css_class*, which leaves its answer in the form's *field*.
    *sources* are the origins that a page's policy must allow for it, besides the script's own.
    """

    title: str
    script: str
    verify: str
    css_class: str
    field: str
    sources: tuple[str, ...] = ()

    def policy_sources(self) -> tuple[str, ...]:
        """All origins that the page may load from: this provider's and no other."""
        where = urlsplit(self.script)
        return tuple(dict.fromkeys((f"{where.scheme}://{where.netloc}", *self.sources)))

    def with_addresses(self, script: str, verify: str) -> Provider:
        """The same at other addresses, such as recaptcha.net, where they are given."""
        sources = () if script else self.sources
        return msgspec.structs.replace(
            self, script=script or self.script, verify=verify or self.verify, sources=sources
        )


PROVIDERS: dict[Name, Provider] = {
    "turnstile": Provider(
        "Cloudflare Turnstile",
        "https://challenges.cloudflare.com/turnstile/v0/api.js",
        "https://challenges.cloudflare.com/turnstile/v0/siteverify",
        "cf-turnstile",
        "cf-turnstile-response",
    ),
    "hcaptcha": Provider(
        "hCaptcha",
        "https://js.hcaptcha.com/1/api.js",
        "https://api.hcaptcha.com/siteverify",
        "h-captcha",
        "h-captcha-response",
        ("https://hcaptcha.com", "https://*.hcaptcha.com"),
    ),
    "recaptcha": Provider(
        "reCAPTCHA",
        "https://www.google.com/recaptcha/api.js",
        "https://www.google.com/recaptcha/api/siteverify",
        "g-recaptcha",
        "g-recaptcha-response",
        ("https://www.gstatic.com", "https://www.recaptcha.net"),
    ),
}


def verify_body(secret: str, answer: str, address: str) -> bytes:
    """What a provider is sent to check an answer."""
    return urlencode({"secret": secret, "response": answer[:_LONGEST_ANSWER], "remoteip": address}).encode()


def is_confirmed(body: bytes) -> bool | None:
    """
    What a provider says: yes, no, or None where it is no answer.

    A provider that finds fault with our own secret has not looked at the visitor's answer: that is an outage.

    >>> is_confirmed(b'{"success": true}'), is_confirmed(b'{"success": false}'), is_confirmed(b"oops")
    (True, False, None)
    """
    try:
        said = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("success"), bool):
        return None
    codes = said.get("error-codes")
    ours = {"missing-input-secret", "invalid-input-secret", "internal-error", "sitekey-secret-mismatch", "bad-request"}
    if not said["success"] and isinstance(codes, list) and any(code in ours for code in codes if isinstance(code, str)):
        return None
    return bool(said["success"])
