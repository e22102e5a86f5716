"""
Challenges over HTTP: the page that is sent instead of the requested one, the answers to it, and the files it loads.

The engine decides who is challenged. `ChallengeHooks` receives each outcome and draws the consequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qsl

import msgspec

from hedgerow.challenge.captcha import Captcha, make_audio, make_image
from hedgerow.challenge.clearance import Clearances
from hedgerow.challenge.client_preferences import wants_page
from hedgerow.challenge.external import PROVIDERS
from hedgerow.challenge.form_data import Form, read_form
from hedgerow.challenge.interfaces import CAPTCHAS, ChallengeFailure, ChallengeHooks, ChallengeKind, UsedChallenges
from hedgerow.challenge.prices import ClearancePrice, is_sold_out, wants_captcha
from hedgerow.challenge.protocol import Challenges, Failed, Issued, Solved, Ticket, Unconfirmed
from hedgerow.challenge.redirect_target import HOME
from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit
from hedgerow.detectors.driven_browser import SignsSettings
from hedgerow.markers.token import TokenCodecs
from hedgerow.request.browser_report import BrowserReport, read_report
from hedgerow.request.browser_signs import asks_for_privacy
from hedgerow.request.identify import RawHeaders
from hedgerow.request.path_rules import PathRules
from hedgerow.settings import Settings
from hedgerow.web.asgi_types import Receive
from hedgerow.web.challenge import pages
from hedgerow.web.challenge.captcha_pool import CaptchaPool
from hedgerow.web.challenge.question_page import QuestionOptions, question
from hedgerow.web.challenge.siteverify import SiteVerify
from hedgerow.web.response_headers import header
from hedgerow.web.response_pages import (
    FORM_HEADERS,
    Header,
    PageRequest,
    ResponsePage,
    header_word,
    make_response,
    no_content,
    not_found,
    redirect,
)
from hedgerow.web.waiter import Waiter

RETRY_AFTER = 60
"""Seconds after which a client that cannot be shown a page may try again."""
_MESSAGES: dict[ChallengeFailure, str] = {"wrong": "wrong", "expired": "expired", "outage": "external_failed"}
"""The words for a failure; an answer that failed for any other reason is called stale."""
_SAME_SITE = frozenset({b"", b"same-origin", b"none"})
_POSTED = frozenset({"answer", "choose", "task", "clear", "signs"})
_MAX_WORK_PRICE = 4
"""The last challenge of a visitor's day that may be a calculation."""
_SILENT_SECONDS = 600.0
"""How long the script of a page has for its calculation: slow devices calculate while the page is read."""
_MAX_DRAINED = 16_000_000
_MAX_FIELDS = 40
_PUZZLE_TIMEOUT = 2.0
_POLL_INTERVAL = 0.05


OnReport = Callable[[Visit, BrowserReport], bool]


class _Request(msgspec.Struct, frozen=True):
    """
    A request of a challenged visitor; *fields* are those of the form that it sends.

    *price* is what the next clearance costs it. *target* is the page that it wants.
    """

    visit: Visit
    decision: Decision
    preferences: pages.ClientPreferences
    price: ClearancePrice
    target: str
    fields: Mapping[str, str] = {}

    @property
    def is_challenged(self) -> bool:
        """False for a visitor who has solved a challenge meanwhile, in another tab or by the first of two clicks."""
        return self.decision.action == "challenge" or self.decision.owes

    @property
    def suspicion(self) -> float:
        """How hard a calculation is: it follows the evidence, and grows with each challenge of visitor and address."""
        weight = sum(evidence.weight for evidence in self.decision.evidence) if not self.decision.owes else 0.0
        # 1.0 stands for four times as much work.
        return max(weight, float(self.decision.price)) + self.price.steps / 2


class _Task(msgspec.Struct, frozen=True):
    """What the script of a page gets."""

    ticket: str
    challenge: str
    question: msgspec.Raw


class ChallengeEndpoint:
    """
    The challenges of a site under one set of settings. *counted* has challenges by outcome.

    *on_report* is called with what the script of a page reports, and returns whether it is new. *paths* are the rules
    for parts of the site, which may name other kinds of challenges.
    """

    def __init__(
        self,
        settings: Settings,
        tokens: TokenCodecs,
        used_challenges: UsedChallenges,
        hooks: ChallengeHooks,
        clearances: Clearances,
        counted: Counter[str],
        waiter: Waiter,
        on_report: OnReport,
        paths: PathRules | None = None,
    ) -> None:
        self._paths = paths
        self.hooks = hooks
        self._on_report = on_report
        self._reads_signs = settings.table(SignsSettings).enabled
        self.counted = counted
        self._waiter = waiter
        self._responses = settings.responses
        self._own = settings.challenge
        self._external: SiteVerify | None = None
        all_kinds = {*self._own.kinds, *(kind for rule in settings.path for kind in rule.challenges or ())}
        if "external" in all_kinds:
            external = self._own.external
            provider = PROVIDERS[external.provider].with_addresses(external.script, external.verify)
            self._external = SiteVerify(provider, external.secret, external.timeout)
        own = self._own
        pools: dict[ChallengeKind, CaptchaPool[Captcha]] = {
            kind: CaptchaPool(make, own.pool, name)
            for kind, make, name in (("image", make_image, "image"), ("audio", make_audio, "recording"))
            if kind in all_kinds
        }
        self._pools = pools
        self._clearances = clearances
        # Nothing here refers to this object: a cycle would keep its images long after a reload.
        self._challenges = Challenges(
            tokens, used_challenges,
            seconds=lambda kind: own.audio_seconds if kind == "audio" else own.seconds,
            puzzles=lambda kind: pools[kind].take(),
            easiest=own.difficulty, hardest=own.hardest,
        )  # fmt: skip

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    async def challenge(
        self, visit: Visit, decision: Decision, headers: RawHeaders, receive: Receive, reference: str
    ) -> ResponsePage:
        """Return the response to a visit that is challenged: a page for a browser window, else 429."""
        preferences = self._preferences(visit, headers, reference, decision.code)
        by_name = dict(headers)
        if not wants_page(visit, by_name):
            accept = by_name.get(b"accept", b"").decode("latin-1")
            return pages.declined(preferences, accept=accept, method=visit.method, retry_after=RETRY_AFTER)
        for pool in self._pools.values():
            pool.start()
        request = _Request(visit, decision, preferences, await self.hooks.price(visit), visit.target)
        if is_sold_out(request.price.steps) or not self._kinds(request):
            return pages.blocked(preferences)
        form, lost = await self._form(visit, by_name, receive) if visit.method == "POST" else (None, False)
        ticket = self._challenges.ticket(visit, request.suspicion, form=form, lost=lost)
        return await self._ask(request, ticket, self._kinds(request)[0])

    def _kinds(self, request: _Request) -> tuple[ChallengeKind, ...]:
        """Return the kinds of challenges that the visitor can choose from: no calculation once it is too cheap."""
        kinds = self._kinds_at(request.target)
        is_late = request.decision.price > _MAX_WORK_PRICE or wants_captcha(request.price.steps)
        if is_late and any(kind != "work" for kind in kinds):
            kinds = tuple(kind for kind in kinds if kind != "work")
        return tuple(kind for kind in kinds if kind not in CAPTCHAS) if self._guessed_too_often(request) else kinds

    def _kinds_at(self, target: str) -> tuple[ChallengeKind, ...]:
        """Return the kinds of challenges for a page."""
        found = self._paths.find(target) if self._paths is not None else None
        return self._own.kinds if found is None or found.rule.challenges is None else found.rule.challenges

    def _guessed_too_often(self, request: _Request) -> bool:
        """Return whether there were too many wrong answers today; where many people are, more are allowed."""
        return request.price.wrong >= self._own.wrong_answers * (1 + request.price.held / 2)

    async def serve(
        self, visit: Visit, decision: Decision, headers: RawHeaders, receive: Receive, reference: str, *, secure: bool
    ) -> ResponsePage:
        """Return the response to a visit to a reserved path."""
        name = visit.target.removeprefix(self._own.path).partition("?")[0]
        if visit.method in {"GET", "HEAD"}:
            if name in {"answer", "choose"}:
                # The visitor went back, or reloaded the page.
                return redirect(303, HOME)
            found = pages.asset(name, header(headers, b"accept-encoding"))
            if found is not None:
                return found if visit.method == "GET" else msgspec.structs.replace(found, body=b"")
        if visit.method != "POST" or name not in _POSTED:
            return not_found(PageRequest(header(headers, b"accept").decode("latin-1"), visit.kind, visit.method))
        body = await _body(receive, 2 * self._own.body + 65_536)
        if not _is_from_here(visit, headers):
            # Another site must neither answer for a visitor nor have wrong answers counted against it.
            return make_response(403, FORM_HEADERS["text"], b"", [])
        fields = _fields(body) if body is not None else {}
        if name == "signs":
            return self._signs(visit, headers, fields)
        price = await self.hooks.price(visit)
        preferences = self._preferences(visit, headers, reference, decision.code)
        wanted = self._challenges.read_ticket(fields.get("ticket", ""), visit)
        target = wanted.target if wanted is not None else HOME
        request = _Request(visit, decision, preferences, price, target, fields)
        if name == "task":
            return await self._task(request)
        if name == "clear":
            return await self._clear(request, secure=secure)
        return await (self._choose(request) if name == "choose" else self._answer(request, secure=secure))

    def blocked(self, visit: Visit, decision: Decision, headers: RawHeaders, reference: str) -> ResponsePage | None:
        """Return a page for a visitor who was challenged too often; None if the client cannot be shown a page."""
        if not wants_page(visit, dict(headers)):
            return None
        return pages.blocked(self._preferences(visit, headers, reference, decision.code))

    async def _choose(self, request: _Request) -> ResponsePage:
        ticket = self._challenges.read_ticket(request.fields.get("ticket", ""), request.visit)
        if not request.is_challenged:
            return self._continue(request, ticket)
        if ticket is None:
            return await self._fail(request, Failed("tampered"))
        kinds = self._kinds(request)
        if not kinds:
            return pages.blocked(request.preferences)
        chosen = next((kind for kind in kinds if kind == request.fields.get("kind")), kinds[0])
        return await self._ask(request, ticket, chosen, again=True)

    async def _task(self, request: _Request) -> ResponsePage:
        """Return a calculation for the script of a page, as JSON; nothing for a visitor who needs no clearance."""
        visit = request.visit
        if not self._own.silent or not self.hooks.needs_clearance(visit, request.decision):
            return no_content()
        if "work" not in self._kinds(request):
            return no_content()
        ticket = self._challenges.ticket(_home(visit), request.suspicion)
        issued = self._challenges.issue(visit, ticket, "work", seconds=_SILENT_SECONDS)
        assert issued is not None
        self.counted["silent"] += 1
        task = _Task(issued.ticket, issued.challenge, msgspec.Raw(issued.question.encode()))
        return make_response(200, FORM_HEADERS["json"], msgspec.json.encode(task), [])

    def _signs(self, visit: Visit, headers: RawHeaders, fields: Mapping[str, str]) -> ResponsePage:
        """Take what the script of a page reports, and say whether it is new: 200 or 204."""
        report = read_report(fields) if self._reads_signs and not asks_for_privacy(headers) else None
        if report is not None and self._on_report(visit, report):
            return make_response(200, FORM_HEADERS["text"], b"", [])
        return no_content()

    async def _clear(self, request: _Request, *, secure: bool) -> ResponsePage:
        """Give a clearance for the solution of a calculation that no page asked for."""
        visit = request.visit
        result = self._challenges.check(*_answer_fields(request.fields), visit)
        if not isinstance(result, Solved):
            failure = result.failure if isinstance(result, Failed) else "outage"
            self.counted[failure] += 1
            # Of several tabs another one may have been faster. Then this one was asked as another visitor.
            if failure in {"wrong", "tampered"}:
                self.hooks.failed(visit, failure, "work", visit.at)
            return no_content()
        self.counted["cleared"] += 1
        return no_content([await self._clearance(request, result, secure=secure)])

    async def _clearance(self, request: _Request, result: Solved, *, secure: bool) -> Header:
        """Clear the visitor, and return the cookie that says so."""
        visit, language = request.visit, request.preferences.accept_language
        value, key = self._clearances.issue(visit, result.kind, visit.at, language=language)
        key = visit.visitor if visit.account else key
        await self.hooks.solved(visit, key, result.kind, visit.at, asked=request.is_challenged)
        return b"set-cookie", self._clearances.cookie(value, secure=secure)

    async def _answer(self, request: _Request, *, secure: bool) -> ResponsePage:
        result = self._challenges.check(*_answer_fields(request.fields), request.visit)
        if isinstance(result, Solved) and result.kind in CAPTCHAS and self._guessed_too_often(request):
            # It was asked before the last wrong answers.
            result = Failed("spent", result.ticket, result.kind)
        if isinstance(result, Unconfirmed):
            result = await self._confirm(result.ticket, request)
        if isinstance(result, Failed):
            return await self._fail(request, result)
        self.counted["solved"] += 1
        return self._continue(request, result.ticket, [await self._clearance(request, result, secure=secure)])

    async def _confirm(self, ticket: Ticket, request: _Request) -> Solved | Failed:
        """Ask the external provider. There is none if the challenge was issued under earlier settings."""
        confirmed = None
        if self._external is not None:
            answer = request.fields.get(self._external.provider.field, "")
            confirmed = await self._external.confirms(answer, request.visit.address, self._waiter)
        if confirmed is None:
            return Failed("outage", ticket, "external")
        return Solved("external", ticket) if confirmed else Failed("wrong", ticket, "external")

    async def _fail(self, request: _Request, failed: Failed) -> ResponsePage:
        """Ask again, unless the visitor has been cleared meanwhile."""
        visit = request.visit
        if not request.is_challenged:
            return self._continue(request, failed.ticket)
        self.counted[failed.failure] += 1
        self.hooks.failed(visit, failed.failure, failed.kind, visit.at)
        request = msgspec.structs.replace(request, price=await self.hooks.price(visit))
        kinds = self._kinds(request)
        if not kinds:
            return pages.blocked(request.preferences)
        ticket = failed.ticket
        if ticket is None:
            ticket = self._challenges.ticket(_home(visit), request.suspicion)
        kind = failed.kind if failed.kind in kinds else kinds[0]
        if failed.failure == "outage":
            kind = next((other for other in kinds if other != "external"), kinds[0])
        return await self._ask(request, ticket, kind, message=_MESSAGES.get(failed.failure, "stale"), again=True)

    def _continue(self, request: _Request, ticket: Ticket | None, headers: Sequence[Header] = ()) -> ResponsePage:
        """Send the visitor to the page that was requested first."""
        if ticket is None or ticket.method != "POST":
            return redirect(303, HOME if ticket is None else ticket.target, headers)
        respond = pages.resend_form if ticket.form is not None else pages.form_lost
        return respond(ticket, request.preferences, headers)

    async def _ask(
        self, request: _Request, ticket: Ticket, kind: ChallengeKind, *, message: str = "", again: bool = False
    ) -> ResponsePage:
        """Return a page with a challenge of this *kind*, or only with the other kinds if no puzzle is ready."""
        visit = request.visit
        issued = await self._issue(visit, ticket, kind)
        if issued is None:
            message = "busy"
        else:
            self.counted["issued"] += 1
            self.hooks.issued(visit, kind, visit.at, again=again)
        options = QuestionOptions(
            self._kinds(request),
            # A browser that was too slow must not go on for ever by itself.
            auto=self._own.auto and not message,
            reload=self._own.auto and visit.method == "GET",
            focus=again,
            message=message,
            lost=ticket.lost,
            provider=self._external.provider if self._external is not None else None,
            site_key=self._own.external.site_key,
        )
        sealed = issued.ticket if issued is not None else self._challenges.seal_ticket(ticket, visit)
        return question(issued, sealed, request.preferences, options)

    async def _issue(self, visit: Visit, ticket: Ticket, kind: ChallengeKind) -> Issued | None:
        """Issue a challenge, after a short wait if its pool is empty."""
        for _ in range(int(_PUZZLE_TIMEOUT / _POLL_INTERVAL)):
            issued = self._challenges.issue(visit, ticket, kind)
            if issued is not None:
                return issued
            await self._waiter.sleep(_POLL_INTERVAL)
        return None

    async def _form(self, visit: Visit, headers: Mapping[bytes, bytes], receive: Receive) -> tuple[Form | None, bool]:
        """
        Return the form that was sent, and whether it is lost.

        Only a form from a page of this site is kept. It is sent again from this site, with the visitor's cookies. That
        must not happen to a form from another site.
        """
        body = await _body(receive, self._own.body)
        host = visit.host.encode("latin-1").lower()
        origin = headers.get(b"origin", b"").lower().partition(b"://")[2]
        if body is None or visit.origin == "cross" or (visit.origin != "same" and origin != host):
            return None, True
        form = read_form(headers.get(b"content-type", b"").decode("latin-1"), body)
        return form, form is None

    def _preferences(self, visit: Visit, headers: RawHeaders, reference: str, code: str) -> pages.ClientPreferences:
        return pages.ClientPreferences(
            header(headers, b"accept-language").decode("latin-1"), self._own.path, self._responses.site or visit.host,
            self._responses.contact, header_word(reference), header_word(code),
        )  # fmt: skip


def _is_from_here(visit: Visit, headers: RawHeaders) -> bool:
    """Return whether a form comes from a page of this site, as far as the browser says where it comes from."""
    origin = header(headers, b"origin").lower()
    is_own = origin in {b"", b"null"} or origin.partition(b"://")[2] == visit.host.lower().encode("latin-1")
    return is_own and header(headers, b"sec-fetch-site") in _SAME_SITE


def _home(visit: Visit) -> Visit:
    """Return the visit as one to the home page."""
    return msgspec.structs.replace(visit, method="GET", target=HOME, raw_target="", referrer="")


def _answer_fields(fields: Mapping[str, str]) -> tuple[str, str, str]:
    return fields.get("ticket", ""), fields.get("challenge", ""), fields.get("answer", "")


async def _body(receive: Receive, limit: int) -> bytes | None:
    """Return the body of a request, or None if it is larger than *limit* bytes or incomplete."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        # Some more is read and dropped: a browser that is interrupted shows an error of its own instead of the page.
        if not message.get("more_body", False) or size > _MAX_DRAINED:
            return b"".join(pieces) if size <= limit else None


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        return {}
