"""
The page that asks a suspect: what there is to be solved, and the other ways.

Most of it is the same for everybody who is asked on a site in a language: that is written once.
"""

from __future__ import annotations

import binascii
import secrets
from collections.abc import Iterable
from functools import lru_cache
from html import escape

import msgspec

from hedgerow.challenge.external import Provider
from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.challenge.protocol import Issued
from hedgerow.web.challenge.pages import ClientPreferences, Words, html, page, policy, words_in
from hedgerow.web.page_template import PageTemplate, slot
from hedgerow.web.response_pages import ResponsePage

_LONGEST_SITE = 260
_MESSAGES = frozenset({"wrong", "expired", "stale", "busy", "external_failed"})


class _Asking(msgspec.Struct, frozen=True):
    """What pages that ask have in common with others of their site; the rest is filled in for each."""

    manner: ClientPreferences
    kind: ChallengeKind | None
    seconds: str
    media: str
    kinds: tuple[ChallengeKind, ...]
    auto: bool
    focus: bool
    message: str
    lost: bool
    provider: Provider | None
    site_key: str

    @property
    def name(self) -> str:
        return self.provider.title if self.provider is not None else ""


# The values of each page. Whatever there is of them goes into holes, so that few pages differ but in these.
_NONCE, _TICKET, _CHALLENGE, _QUESTION = (slot(name) for name in ("nonce", "ticket", "challenge", "question"))
_CONTENT, _REFERENCE, _CODE = (slot(name) for name in ("content", "reference", "code"))


def question(
    issued: Issued | None,
    manner: ClientPreferences,
    *,
    kinds: Iterable[ChallengeKind],
    ticket: str,
    auto: bool = True,
    focus: bool = False,
    message: str = "",
    lost: bool = False,
    provider: Provider | None = None,
    site_key: str = "",
) -> ResponsePage:
    """
    The page that asks.

    *issued* is what is asked; None where no puzzle was ready. *kinds* are the ways that there are, *message* what
    became of the answer before, *lost* that what the visitor was sending cannot be kept. *focus* is for who has chosen
    this way: the cursor is where the answer goes.
    """
    puzzle = issued.puzzle if issued is not None else None
    asking = _Asking(
        # In the language that was chosen, and not in the words of each browser for it.
        ClientPreferences(manner.language, manner.path, manner.site, "", _REFERENCE, _CODE),
        issued.kind if issued is not None else None,
        f"{issued.seconds:.0f}" if issued is not None else "",
        puzzle.media if puzzle is not None else "",
        tuple(kinds),
        auto,
        focus,
        message if message in _MESSAGES else "",
        lost,
        provider,
        site_key,
    )
    # A client may name a site of any length: only so much is kept.
    body, allowed = _asking(asking) if len(manner.site) <= _LONGEST_SITE else _asking.__wrapped__(asking)
    values = {
        "nonce": secrets.token_urlsafe(16),
        "ticket": ticket,
        "challenge": issued.challenge if issued is not None else "",
        "question": escape(issued.question) if issued is not None else "",
        "content": binascii.b2a_base64(puzzle.content, newline=False).decode() if puzzle is not None else "",
        "reference": escape(manner.reference),
        "code": escape(manner.code),
    }
    headers = [
        (b"content-security-policy", allowed.filled(values)),
        (b"hedgerow-decision", f"challenge; code={manner.code}; ref={manner.reference}".encode()),
    ]
    return html(403, body.filled(values), headers)


@lru_cache(maxsize=256)
def _asking(asking: _Asking) -> tuple[PageTemplate, PageTemplate]:
    """The page that asks, and what it may do."""
    words = words_in(asking.manner.language)
    parts = [f"<p>{words('lead')}</p>\n"]
    if asking.message:
        text = words(asking.message, seconds=asking.seconds, name=asking.name)
        parts = [f'<p class="alert" role="alert" id="alert">{text}</p>\n']
    if asking.lost:
        parts.append(f"<p><strong>{words('lost')}</strong></p>\n")
    scripts: tuple[str, ...] = ()
    if asking.kind in {"image", "audio"}:
        parts.append(_ask_puzzle(asking, words))
    elif asking.kind == "work":
        parts.append(_ask_work(asking, words))
        scripts = ("altcha/altcha.css", "challenge.js")
    elif asking.kind == "external" and asking.provider is not None:
        parts.append(_ask_external(asking, asking.provider, words))
        scripts = ("challenge.js",)
    parts.append('<p id="status" role="status" aria-live="polite"></p>\n')
    parts.append(_others(asking, words))
    external = asking.provider.policy_sources() if asking.kind == "external" and asking.provider else ()
    text = page(words, asking.manner, "title", "".join(parts), _NONCE, scripts)
    return PageTemplate(text), PageTemplate(policy(_NONCE, external))


def _form(manner: ClientPreferences) -> tuple[str, str]:
    """Where the answer goes, and what goes with it."""
    return f'method="post" action="{escape(manner.path)}answer"', (
        f'<input type="hidden" name="ticket" value="{_TICKET}">'
        f'<input type="hidden" name="challenge" value="{_CHALLENGE}">'
    )


def _ask_work(asking: _Asking, words: Words) -> str:
    action, hidden = _form(asking.manner)
    return (
        f'<form id="work" {action} data-auto="{"onload" if asking.auto else "off"}" data-seconds="{asking.seconds}"'
        f' data-question="{_QUESTION}" data-words="{words.widget}">'
        f"{hidden}\n<p>{words('work_auto' if asking.auto else 'work_click')}</p>\n"
        f'<p id="needs"><strong>{words("work_noscript")}</strong></p>\n'
        f'<div id="widget"></div></form>\n'
    )


def _ask_external(asking: _Asking, provider: Provider, words: Words) -> str:
    action, hidden = _form(asking.manner)
    failed = words("external_failed", name=provider.title)
    return (
        f'<form id="external" {action} data-script="{escape(provider.script)}" data-failed="{failed}">{hidden}\n'
        f"<p>{words('external', name=provider.title)}</p>\n"
        f'<p id="needs"><strong>{words("work_noscript")}</strong></p>\n'
        f'<div class="{provider.css_class}" data-sitekey="{escape(asking.site_key)}" data-callback="hedgerowAnswered">'
        f'</div>\n<p><button class="main">{words("submit")}</button></p></form>\n'
    )


def _ask_puzzle(asking: _Asking, words: Words) -> str:
    action, hidden = _form(asking.manner)
    source = f"data:{asking.media};base64,{_CONTENT}"
    here = " autofocus" if asking.focus else ""
    if asking.kind == "image":
        shown = f'<img src="{source}" width="280" height="90" alt="{words("image_alt")}">'
        hint, keys = words("hint", seconds=asking.seconds), here
    else:
        # Who listens begins with the player.
        shown = f'<audio controls src="{source}" aria-label="{words("audio_player")}"{here}></audio>'
        hint, keys = words("audio_hint", seconds=asking.seconds), ' inputmode="numeric"'
    described = "alert hint" if asking.message else "hint"
    return (
        f"<form {action}>{hidden}\n{shown}\n"
        f'<label for="typed">{words(f"{asking.kind}_label")}</label>\n'
        f'<input type="text" id="typed" name="answer" required maxlength="20" autocomplete="off" autocapitalize="none"'
        f' spellcheck="false" aria-describedby="{described}"{keys}>\n'
        f'<p class="hint" id="hint">{hint}</p>\n'
        f'<button class="main">{words("submit")}</button></form>\n'
    )


def _others(asking: _Asking, words: Words) -> str:
    """The other ways, and another of the same where one may be hard to read; each a new challenge."""
    shown = asking.kind
    choices = {kind: words("choose_" + kind, name=asking.name) for kind in asking.kinds if kind != shown}
    if shown in {"image", "audio"}:
        choices[shown] = words(f"new_{shown}")
    if not choices:
        return ""
    buttons = "".join(f'<button name="kind" value="{kind}">{text}</button>\n' for kind, text in choices.items())
    return (
        f'<form id="others" method="post" action="{escape(asking.manner.path)}choose">'
        f'<h2>{words("others")}</h2><input type="hidden" name="ticket" value="{_TICKET}">\n{buttons}</form>\n'
    )
