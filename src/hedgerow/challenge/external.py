"""
External CAPTCHA providers: Turnstile, hCaptcha, reCAPTCHA. All three verify an answer with the same "siteverify" call.

This module does no I/O. `web.challenge.siteverify` makes the call.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlencode, urlsplit

import msgspec

from hedgerow.errors import DECODE_ERRORS

Name = Literal["turnstile", "hcaptcha", "recaptcha"]

_MAX_ANSWER_LENGTH = 10_000
_SITE_ERRORS = frozenset(
    {"missing-input-secret", "invalid-input-secret", "internal-error", "sitekey-secret-mismatch", "bad-request"}
)


class Provider(msgspec.Struct, frozen=True):
    """
    An external provider.

    *script* draws the widget into an element of class *css_class*, which stores its answer in the form's *field*.
    *sources* are the origins, besides the script's own, that the page's content security policy must allow.
    """

    title: str
    script: str
    verify: str
    css_class: str
    field: str
    sources: tuple[str, ...] = ()

    def policy_sources(self) -> tuple[str, ...]:
        url = urlsplit(self.script)
        return tuple(dict.fromkeys((f"{url.scheme}://{url.netloc}", *self.sources)))

    def with_addresses(self, script: str, verify: str) -> Provider:
        """Return this provider with other addresses, such as those of recaptcha.net, if given."""
        sources = () if script else self.sources
        return msgspec.structs.replace(
            self, script=script or self.script, verify=verify or self.verify, sources=sources
        )


PROVIDERS: dict[Name, Provider] = {
    "turnstile": Provider(
        "Cloudflare Turnstile", "https://challenges.cloudflare.com/turnstile/v0/api.js",
        "https://challenges.cloudflare.com/turnstile/v0/siteverify", "cf-turnstile", "cf-turnstile-response",
    ),
    "hcaptcha": Provider(
        "hCaptcha", "https://js.hcaptcha.com/1/api.js", "https://api.hcaptcha.com/siteverify", "h-captcha",
        "h-captcha-response", ("https://hcaptcha.com", "https://*.hcaptcha.com"),
    ),
    "recaptcha": Provider(
        "reCAPTCHA", "https://www.google.com/recaptcha/api.js", "https://www.google.com/recaptcha/api/siteverify",
        "g-recaptcha", "g-recaptcha-response", ("https://www.gstatic.com", "https://www.recaptcha.net"),
    ),
}  # fmt: skip


def verify_body(secret: str, answer: str, address: str) -> bytes:
    return urlencode({"secret": secret, "response": answer[:_MAX_ANSWER_LENGTH], "remoteip": address}).encode()


def is_confirmed(body: bytes) -> bool | None:
    """
    Return the provider's verdict, or None if the response is not a verdict.

    A provider that rejects the site's secret has not checked the visitor's answer, so that counts as an outage.

    >>> is_confirmed(b'{"success": true}'), is_confirmed(b'{"success": false}'), is_confirmed(b"oops")
    (True, False, None)
    """
    try:
        reply = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return None
    if not isinstance(reply, dict) or not isinstance(reply.get("success"), bool):
        return None
    codes = reply.get("error-codes")
    if not reply["success"] and isinstance(codes, list) and not _SITE_ERRORS.isdisjoint(map(str, codes)):
        return None
    return bool(reply["success"])
