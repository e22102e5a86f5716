"""
Challenges over HTTP: the page instead of what was asked for, the answers that come back, and what the page loads.

    challenge   a visit that is to be challenged -> the answer to it
    serve       a visit to a reserved path       -> the answer to it
    blocked     the page for who has been asked too often

`hooks` is told of each challenge; who is challenged, and what follows from it, is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec

from hedgerow.challenge.captcha import Captcha, make_audio, make_image
from hedgerow.challenge.clearance import Clearances
from hedgerow.challenge.client_preferences import wants_page
from hedgerow.challenge.external import PROVIDERS, Provider
from hedgerow.challenge.form_data import Form, read_form
from hedgerow.challenge.interfaces import ChallengeFailure, ChallengeHooks, ChallengeKind, UsedChallenges
from hedgerow.challenge.protocol import Challenges, Failed, Issued, Solved, Ticket, Unconfirmed
from hedgerow.challenge.redirect_target import HOME
from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit
from hedgerow.markers.token import TokenCodecs
from hedgerow.request.identify import RawHeaders
from hedgerow.settings import Settings
from hedgerow.web.asgi_types import Receive
from hedgerow.web.challenge import pages as said
from hedgerow.web.challenge.captcha_pool import CaptchaPool
from hedgerow.web.challenge.question_page import question
from hedgerow.web.challenge.siteverify import SiteVerify
from hedgerow.web.response_headers import header
from hedgerow.web.response_pages import ResponsePage, header_word, not_found
from hedgerow.web.waiter import ON_LOOP, Waiter

RETRY_AFTER = 60
"""Seconds after which a client that cannot be shown a page may try again."""
_MESSAGES: dict[ChallengeFailure, str] = {
    "wrong": "wrong",
    "expired": "expired",
    "spent": "stale",
    "spliced": "stale",
    "visitor": "stale",
    "tampered": "stale",
    "outage": "external_failed",
}
_DRAINED = 16_000_000
_MOST_FIELDS = 20
_PATIENCE = 2.0
_LOOK_EVERY = 0.05


class ChallengeEndpoint:
    """The challenges of a site under these settings."""

    def __init__(
        self,
        settings: Settings,
        seals: TokenCodecs,
        spent: UsedChallenges,
        hooks: ChallengeHooks,
        clearances: Clearances,
        counted: Counter[str],
        waiter: Waiter = ON_LOOP,
    ) -> None:
        self.hooks = hooks
        self.counted = counted
        """Challenges by what became of them: issued, solved, and each way to fail."""
        self._waiter = waiter
        self._settings = settings
        self._own = settings.challenge
        self._external: Provider | None = None
        self._verify: SiteVerify | None = None
        if "external" in self._own.kinds:
            external = self._own.external
            self._external = PROVIDERS[external.provider].with_addresses(external.script, external.verify)
            self._verify = SiteVerify(self._external.verify, external.secret, external.timeout)
        self._pools: dict[ChallengeKind, CaptchaPool[Captcha]] = {
            kind: CaptchaPool(make, self._own.pool, name)
            for kind, make, name in (("image", make_image, "image"), ("audio", make_audio, "recording"))
            if kind in self._own.kinds
        }
        self.clearances = clearances
        self._challenges = Challenges(
            seals,
            spent,
            seconds=lambda kind: self._own.audio_seconds if kind == "audio" else self._own.seconds,
            puzzles=lambda kind: self._pools[kind].take(),
            easiest=self._own.difficulty,
            hardest=self._own.hardest,
        )

    def close(self) -> None:
        """Make no more puzzles."""
        for pool in self._pools.values():
            pool.close()

    async def challenge(
        self, visit: Visit, decision: Decision, headers: RawHeaders, receive: Receive, reference: str
    ) -> ResponsePage:
        """The answer to a visit that is to be challenged: a page for a browser window, else 429."""
        manner = self._manner(visit, headers, reference, decision.code)
        fields = dict(headers)
        if not wants_page(visit, fields):
            accept = fields.get(b"accept", b"").decode("latin-1")
            return said.declined(manner, accept=accept, method=visit.method, retry_after=RETRY_AFTER)
        for pool in self._pools.values():
            pool.start()
        form, lost = await self._form(visit, fields, receive) if visit.method == "POST" else (None, False)
        ticket = self._challenges.ticket(visit, _suspicion(decision), form=form, lost=lost)
        return await self._ask(visit, ticket, self._own.kinds[0], manner)

    async def serve(
        self,
        visit: Visit,
        decision: Decision,
        headers: RawHeaders,
        receive: Receive,
        reference: str,
        *,
        secure: bool,
    ) -> ResponsePage:
        """The answer to a visit to a reserved path. Who is not under suspicion any more is sent on."""
        name = visit.target.removeprefix(self._own.path).partition("?")[0]
        if visit.method in {"GET", "HEAD"}:
            if name in {"answer", "choose"}:
                # Somebody has gone back, or reloaded.
                return said.onto(HOME, [])
            found = said.asset(name, header(headers, b"accept-encoding"))
            if found is not None:
                return found if visit.method == "GET" else ResponsePage(found.status, found.headers, b"")
        if visit.method != "POST" or name not in {"answer", "choose"}:
            return not_found(accept=header(headers, b"accept").decode("latin-1"), kind=visit.kind, method=visit.method)
        body = await _body(receive, 2 * self._own.body + 65_536)
        sent = _fields(body) if body is not None and header(headers, b"sec-fetch-site") in _SAME else {}
        manner = self._manner(visit, headers, reference, decision.code)
        if name == "choose":
            return await self._choose(visit, decision, sent, manner)
        return await self._answer(visit, decision, sent, manner, secure=secure)

    def blocked(self, visit: Visit, decision: Decision, headers: RawHeaders, reference: str) -> ResponsePage | None:
        """The page for who has been asked too often; None for who cannot be shown a page."""
        if not wants_page(visit, dict(headers)):
            return None
        return said.blocked(self._manner(visit, headers, reference, decision.code))

    async def _choose(
        self, visit: Visit, decision: Decision, sent: Mapping[str, str], manner: said.ClientPreferences
    ) -> ResponsePage:
        ticket = self._challenges.read_ticket(sent.get("ticket", ""), visit)
        if decision.action != "challenge":
            return self._onward(ticket, manner, [])
        chosen = next((kind for kind in self._own.kinds if kind == sent.get("kind")), self._own.kinds[0])
        if ticket is None:
            return await self._fail(visit, decision, Failed("tampered"), manner)
        return await self._ask(visit, ticket, chosen, manner, again=True)

    async def _answer(
        self, visit: Visit, decision: Decision, sent: Mapping[str, str], manner: said.ClientPreferences, *, secure: bool
    ) -> ResponsePage:
        result = self._challenges.check(
            sent.get("ticket", ""), sent.get("challenge", ""), sent.get("answer", ""), visit
        )
        if isinstance(result, Unconfirmed):
            result = await self._confirm(result.ticket, sent, visit)
        if isinstance(result, Failed):
            return await self._fail(visit, decision, result, manner)
        self.counted["solved"] += 1
        value, key = self.clearances.issue(visit, result.kind, visit.at, language=manner.accept_language)
        self.hooks.solved(visit, visit.visitor if visit.account else key, result.kind, visit.at)
        return self._onward(result.ticket, manner, [(b"set-cookie", self.clearances.cookie(value, secure=secure))])

    async def _confirm(self, ticket: Ticket, sent: Mapping[str, str], visit: Visit) -> Solved | Failed:
        """What the external provider says."""
        if self._external is None or self._verify is None:
            # Given out under settings of before.
            return Failed("outage", ticket, "external")
        confirmed = await self._verify.confirms(sent.get(self._external.field, ""), visit.address, self._waiter)
        if confirmed is None:
            return Failed("outage", ticket, "external")
        return Solved("external", ticket) if confirmed else Failed("wrong", ticket, "external")

    async def _fail(
        self, visit: Visit, decision: Decision, failed: Failed, manner: said.ClientPreferences
    ) -> ResponsePage:
        """Another challenge; or the way on, for who has solved one in another tab or by a first click of two."""
        if decision.action != "challenge":
            return self._onward(failed.ticket, manner, [])
        self.counted[failed.failure] += 1
        self.hooks.failed(visit, failed.failure, visit.at)
        ticket = failed.ticket or self._challenges.ticket(_at_home(visit), _suspicion(decision))
        kinds = self._own.kinds
        kind = failed.kind if failed.kind in kinds else kinds[0]
        if failed.failure == "outage":
            kind = next((other for other in kinds if other != "external"), kinds[0])
        return await self._ask(visit, ticket, kind, manner, message=_MESSAGES[failed.failure], again=True)

    def _onward(
        self, ticket: Ticket | None, manner: said.ClientPreferences, headers: list[tuple[bytes, bytes]]
    ) -> ResponsePage:
        """To where the visitor wanted to go."""
        if ticket is None:
            return said.onto(HOME, headers)
        if ticket.method != "POST":
            return said.onto(ticket.target, headers)
        return (
            said.onward(ticket, manner, headers)
            if ticket.form is not None
            else said.sent_again(ticket, manner, headers)
        )

    async def _ask(
        self,
        visit: Visit,
        ticket: Ticket,
        kind: ChallengeKind,
        manner: said.ClientPreferences,
        *,
        message: str = "",
        again: bool = False,
    ) -> ResponsePage:
        """The page with a challenge of this *kind*, or with the others where no puzzle is ready."""
        issued = await self._issue(visit, ticket, kind)
        if issued is None:
            message = "busy"
        else:
            self.counted["issued"] += 1
            self.hooks.issued(visit, kind, visit.at, again=again)
        return question(
            issued,
            manner,
            kinds=self._own.kinds,
            ticket=issued.ticket if issued is not None else self._challenges.seal_ticket(ticket, visit),
            # A browser that was too slow must not go on for ever by itself.
            auto=self._own.auto and not message,
            focus=again,
            message=message,
            lost=ticket.lost,
            provider=self._external,
            site_key=self._own.external.site_key,
        )

    async def _issue(self, visit: Visit, ticket: Ticket, kind: ChallengeKind) -> Issued | None:
        """A challenge; where its pool is empty, wait a little for it."""
        for _ in range(int(_PATIENCE / _LOOK_EVERY)):
            issued = self._challenges.issue(visit, ticket, kind)
            if issued is not None:
                return issued
            await self._waiter.sleep(_LOOK_EVERY)
        return None

    async def _form(self, visit: Visit, fields: Mapping[bytes, bytes], receive: Receive) -> tuple[Form | None, bool]:
        """
        The form that was sent, and whether it is lost.

        Only one that a page of this site sent is kept. Another site's would come from us when it is sent on, with the
        visitor's cookies and all: what browsers keep apart must not be mixed here.
        """
        body = await _body(receive, self._own.body)
        host = visit.host.encode("latin-1").lower()
        origin = fields.get(b"origin", b"").lower().partition(b"://")[2]
        if body is None or visit.origin == "cross" or (visit.origin != "same" and origin != host):
            return None, True
        form = read_form(fields.get(b"content-type", b"").decode("latin-1"), body)
        return form, form is None

    def _manner(self, visit: Visit, headers: RawHeaders, reference: str, code: str) -> said.ClientPreferences:
        responses = self._settings.responses
        return said.ClientPreferences(
            header(headers, b"accept-language").decode("latin-1"),
            self._own.path,
            responses.site or visit.host,
            responses.contact,
            header_word(reference),
            header_word(code),
        )


_SAME = frozenset({b"", b"same-origin", b"none"})


def _suspicion(decision: Decision) -> float:
    return sum(evidence.weight for evidence in decision.evidence)


def _at_home(visit: Visit) -> Visit:
    return msgspec.structs.replace(visit, method="GET", target=HOME, raw_target="", referrer="")


async def _body(receive: Receive, most: int) -> bytes | None:
    """The body of a request, or None where it is larger than *most* bytes or breaks off."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        # Some more is read and dropped: a browser that is cut short shows an error of its own, and not our page.
        if not message.get("more_body", False) or size > _DRAINED:
            return b"".join(pieces) if size <= most else None


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        return {}
