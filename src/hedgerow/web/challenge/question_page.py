"""
The page that asks a visitor to solve a challenge, with the alternatives.

Most of it is the same for all visitors of a site in one language. That part is a template, which is cached, with slots
for what differs. The text that stands for a slot is random, so nothing that a client sends can pass for one.
"""

from __future__ import annotations

import binascii
import secrets
from collections.abc import Mapping
from functools import lru_cache
from html import escape

import msgspec

from hedgerow.challenge.external import Provider
from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.challenge.protocol import Issued
from hedgerow.web.challenge.pages import ClientPreferences, html, page, policy, render
from hedgerow.web.response_pages import ResponsePage

_MAX_CACHED_SITE = 260
_EDGE = secrets.token_hex(8)


def slot(name: str) -> str:
    """Return what stands for a value in a template. It needs no escape in HTML."""
    return f"{_EDGE}{name}{_EDGE}"


def fill(template: str, values: Mapping[str, str]) -> str:
    pieces = template.split(_EDGE)
    pieces[1::2] = [values[name] for name in pieces[1::2]]
    return "".join(pieces)


_ASSETS: dict[ChallengeKind | None, tuple[str, ...]] = {
    "work": ("challenge.js",),
    "external": ("challenge.js",),
}


class QuestionOptions(msgspec.Struct, frozen=True):
    """
    What is shown around a challenge.

    *kinds* are all that the visitor can choose from. *message* is the outcome of the previous answer. *lost* says that
    the form which the visitor sent cannot be kept. *focus* puts the cursor into the answer, for a visitor who has
    chosen this kind. With *auto* a proof of work starts by itself. With *reload* the browser may load the page again
    instead: its address is the one that was asked for, and no form was sent.
    """

    kinds: tuple[ChallengeKind, ...]
    auto: bool = True
    reload: bool = False
    focus: bool = False
    message: str = ""
    lost: bool = False
    provider: Provider | None = None
    site_key: str = ""


def question(
    issued: Issued | None, ticket: str, preferences: ClientPreferences, options: QuestionOptions
) -> ResponsePage:
    """Return the page that asks. *issued* is None if no puzzle was ready."""
    # The language that was chosen, not the header, which differs between browsers.
    language, path, site = preferences.language, preferences.path, preferences.site
    shared = ClientPreferences(language, path, site, "", slot("reference"), slot("code"))
    values = {
        "nonce": secrets.token_urlsafe(16),
        "ticket": ticket,
        "reference": escape(preferences.reference),
        "code": escape(preferences.code),
    }
    key = _Question(shared, None, "", "", options)
    if issued is not None:
        puzzle = issued.puzzle
        values |= {"challenge": issued.challenge, "question": escape(issued.question)}
        if puzzle is not None:
            values["content"] = binascii.b2a_base64(puzzle.content, newline=False).decode()
        media = puzzle.media if puzzle is not None else ""
        key = _Question(shared, issued.kind, f"{issued.seconds:.0f}", media, options)
    # A client may send a host of any length.
    text, allowed = _templates(key) if len(site) <= _MAX_CACHED_SITE else _templates.__wrapped__(key)
    return html(403, fill(text, values), fill(allowed, values), [preferences.decision_header("challenge")])


_NO_PROVIDER = Provider("", "", "", "", "")


class _Question(msgspec.Struct, frozen=True):
    """What the template of a page depends on."""

    preferences: ClientPreferences
    kind: ChallengeKind | None
    seconds: str
    media: str
    options: QuestionOptions


@lru_cache(maxsize=256)
def _templates(asked: _Question) -> tuple[str, str]:
    """Return the templates of the page and of its content security policy."""
    preferences, kind, options = asked.preferences, asked.kind, asked.options
    words, provider, seconds = preferences.words, options.provider or _NO_PROVIDER, asked.seconds
    main = f"<p>{words('lead')}</p>\n"
    if options.message:
        text = words(options.message, seconds=seconds, name=provider.title)
        main = f'<p class="alert" role="alert" id="alert">{text}</p>\n'
    if options.lost:
        main += f"<p><strong>{words('lost')}</strong></p>\n"
    if kind is not None:
        main += render(
            f"{kind}.html", preferences, ticket=slot("ticket"), challenge=slot("challenge"), question=slot("question"),
            source=f"data:{asked.media};base64,{slot('content')}",
            seconds=seconds, hint=words("hint", seconds=seconds), audio_hint=words("audio_hint", seconds=seconds),
            focus=" autofocus" if options.focus else "", described="alert hint" if options.message else "hint",
            auto="yes" if options.auto else "", start=words("work_auto" if options.auto else "work_click"),
            reload="yes" if options.reload else "", said=words.said,
            external=words("external", name=provider.title),
            external_failed=words("external_failed", name=provider.title),
            script=escape(provider.script), css_class=provider.css_class, site_key=escape(options.site_key),
        )  # fmt: skip
    # Besides the other kinds, another image or recording, which may be hard to read.
    choices = {other: words("choose_" + other, name=provider.title) for other in options.kinds if other != kind}
    if kind in {"image", "audio"}:
        choices[kind] = words(f"new_{kind}")
    buttons = "".join(f'<button name="kind" value="{name}">{text}</button>\n' for name, text in choices.items())
    main += '<p id="status" role="status" aria-live="polite"></p>\n'
    if buttons:
        main += render("others.html", preferences, ticket=slot("ticket"), buttons=buttons)
    external = provider.policy_sources() if kind == "external" else ()
    nonce = slot("nonce")
    return page(preferences, "title", main, nonce, _ASSETS.get(kind, ())), policy(nonce, external)
