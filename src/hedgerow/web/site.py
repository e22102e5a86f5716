"""
The protected site as an adapter sees it: its gate, its bait, its maze, and what has been counted.

Shared by all forms of Hedgerow, so that a page gets the same bait and a crawler the same maze in each of them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from threading import Event, Thread

import msgspec

from hedgerow.challenge.interfaces import ChallengeHooks
from hedgerow.core.decision import Campaign, Decision
from hedgerow.core.gate import Gate, OnDecision
from hedgerow.core.ledger import Ledger
from hedgerow.core.visit import Visit
from hedgerow.lists.model import Lists
from hedgerow.markers.html.csp import allow_base, allow_style
from hedgerow.markers.prepare import PARAMETER, Fill, Preparer, based, is_deep
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.response_headers import keeps_referrers, marked_link, marked_refresh, private, widened_cookie
from hedgerow.markers.rewrite import PageWriter, Rewriter, Skeletons
from hedgerow.markers.rules import Spacing
from hedgerow.markers.token import VISITOR_BYTES, TokenCodec, TokenCodecs, page_digest, visitor_digest
from hedgerow.request.account import AccountOf
from hedgerow.request.bot_verifier import BotCache
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.settings import Settings
from hedgerow.settings.checks import split_listen
from hedgerow.state.store import StateStore
from hedgerow.traps.bait import Bait, PageDigests
from hedgerow.traps.maze import Maze
from hedgerow.traps.tarpit import Tarpit
from hedgerow.watch.relay import Intake
from hedgerow.watch.snapshot import WatchSnapshot
from hedgerow.watch.watch import WatchThread
from hedgerow.web.build import (
    build_clearances,
    build_follower,
    build_gate,
    build_rules,
    build_seals,
    build_sessions,
    build_watch,
    refused_agents,
    use_watch,
)
from hedgerow.web.challenge.endpoint import ChallengeEndpoint
from hedgerow.web.holdings import SiteStores
from hedgerow.web.lookups.dns import DnsResolver
from hedgerow.web.lookups.thread import LookupThread
from hedgerow.web.metrics import SiteMetrics, sum_metrics
from hedgerow.web.storage import build_stores
from hedgerow.web.waiter import ON_LOOP, Waiter

log = logging.getLogger(__name__)


class Site:
    """
    A site under these settings.

    `use` takes other settings while it runs: counters, blocks, lists, ledger and key stay, everything else is made
    anew. Without *lists* they are those of the state directory, read along as they change.
    """

    gate: Gate
    settings: Settings
    challenging: ChallengeEndpoint

    def __init__(
        self,
        settings: Settings,
        *,
        seals: TokenCodecs | None = None,
        stores: SiteStores | None = None,
        state: StateStore | None = None,
        ledger: Ledger | None = None,
        account_of: AccountOf | None = None,
        hooks: ChallengeHooks | None = None,
        lists: Lists | None = None,
    ) -> None:
        self._own_seals = seals
        self._seals = seals or build_seals(settings)
        self._account_of = account_of
        self.stores = stores = build_stores(settings, state=state, ledger=ledger) if stores is None else stores
        self.state, self.ledger, self.spent = stores.state, stores.ledger, stores.spent
        self._own_state = state is None
        self._journal = stores.journal
        self._hooks = hooks
        self._sightings = stores.clearance_usage
        self.follower = build_follower(settings) if lists is None else None
        """What keeps the lists as their store has them."""
        self.lists = self.follower.lists if self.follower is not None else Lists() if lists is None else lists
        if self.follower is not None:
            self.follower.start()
        self.skeletons = Skeletons()
        self._pages = PageDigests()
        self.bot_cache = BotCache()
        self.bot_cache.robots_compliance.revoked_bots = stores.revoked_bots
        self.lookups: LookupThread | None = None
        self.decided: Counter[str] = Counter()
        """Visits by action, and refusals by code."""
        self.untouched: Counter[str] = Counter()
        """Pages passed on without bait, by reason."""
        self.upstream_errors: Counter[str] = Counter()
        self.closed = False
        self._waiting: Waiter = ON_LOOP
        self.closing = False
        """Set when the site is about to stop: nobody is detained any longer."""
        self.use(settings)
        self.watch: WatchThread | None = None
        """What looks at visits behind the fast path."""
        self._intake: Intake | None = None
        self._stop_watching = Event()
        self._watching: Thread | None = None
        if stores.watches and stores.shared is not None:
            run = partial(stores.shared.run, self._stop_watching)
            self._watching = Thread(target=run, name="hedgerow-watch", daemon=True)
            self._watching.start()
        elif stores.watches:
            self.watch = self._beside(settings)
            if stores.intake is not None:
                self._intake = Intake(stores.intake, self.watch.add, self.watch.miss)
        self.gate.on_decision = self._onlooker()

    def _onlooker(self) -> OnDecision | None:
        if self.stores.relay is not None:
            return self.stores.relay.add
        return self.watch.add if self.watch is not None else None

    def _beside(self, settings: Settings) -> WatchThread:
        """The watch, with what was known before a restart where this site takes care of that."""
        watch = build_watch(settings, self.gate.engine.policy, self.state.update_score)
        if self._journal is None:
            return WatchThread(watch, queue=settings.watch.queue)
        watch.note = self._journal.note_campaign
        watch.restore(WatchSnapshot(), self._journal.campaigns(time.time()))
        return WatchThread(watch, queue=settings.watch.queue, sessions=build_sessions(settings))

    def campaigns(self) -> Sequence[Campaign]:
        """All that are known, whoever has found them; the oldest first."""
        if self.stores.shared is not None:
            return self.stores.shared.campaigns()
        if self.watch is not None:
            return self.watch.watch.campaigns()
        return self._journal.campaigns(time.time()) if self._journal is not None else ()

    def use(self, settings: Settings) -> None:
        """Go on under *settings*, and with the keys as they are now."""
        if self._own_seals is None and hasattr(self, "settings"):
            self._seals = build_seals(settings)
        clearances = build_clearances(settings, self._seals, self._sightings)
        gate = build_gate(
            settings, seals=self._seals, state=self.state, ledger=self.ledger, pages=self._pages,
            account_of=self._account_of, clearances=clearances, lists=self.lists, bot_cache=self.bot_cache,
        )  # fmt: skip
        self._look_up(settings)
        self.refused_agents = refused_agents(settings)
        detains = gate.engine.policy.detains
        # A maze takes 30 ms to lay out: only where somebody may be led into it.
        maze = Maze(settings.marker.prefix, self._seals.seed) if detains else None
        before: Settings | None = getattr(self, "settings", None)
        if before is None or before.detain != settings.detain:
            self.tarpit = Tarpit(settings.detain.connections, settings.detain.memory, settings.detain.seconds)
        if before is not None:
            gate.blocked = self.gate.blocked
            gate.on_decision = self._onlooker()
            if self.stores.shared is not None:
                self.stores.shared.follow(settings)
            if self.watch is not None:
                use_watch(self.watch.watch, settings, gate.engine.policy)
            self.challenging.close()
        hooks = self._hooks or gate
        counted = self.challenging.counted if before is not None else None
        self.challenging = ChallengeEndpoint(settings, self._seals, self.spent, hooks, clearances, counted)
        self.challenging.waiting = self._waiting
        self.rules = build_rules(settings)
        # Prepared under the rules and the prefix of before.
        self.skeletons = Skeletons()
        self.settings, self.gate, self.maze = settings, gate, maze

    def wait_by(self, waiting: Waiter) -> None:
        """Wait in this way from now on."""
        self._waiting = self.challenging.waiting = waiting

    def _look_up(self, settings: Settings) -> None:
        """Answer questions about bots under these settings, or none."""
        bots, known = settings.bots, self.bot_cache
        if self.lookups is None or bots != self.settings.bots:
            if self.lookups is not None:
                self.lookups.close()
            resolver = DnsResolver(split_listen(bots.resolver) if bots.resolver else None)
            self.lookups = LookupThread(known, resolver, insecure=bots.insecure_directories)
        if not (bots.enabled and bots.dns):
            known.proofs.ask = None
        if not bots.enabled or bots.signatures == "off":
            known.keys.ask = None

    def seal(self, visit: Visit) -> TokenCodec:
        """The seal under which links are sealed for this visit."""
        return self._seals.of(visit.host)

    def decoy(self, visit: Visit) -> bytes | None:
        """A page of the maze for a visit, or None where nobody is detained."""
        return self.maze.page(self.seal(visit), visit.visitor, visit.target) if self.maze is not None else None

    def changes(self, visit: Visit) -> bool:
        """Whether the pages for this visit are changed at all. A verified bot gets them as they are."""
        return not visit.bot and (self.settings.traps.enabled or self.rules.marks)

    def page(self, visit: Visit, scheme: str) -> Page:
        """What becomes of the page that answers this visit."""
        return Page(self, visit, scheme)

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "") -> None:
        """Count a visit that is answered, or about to be, and write it down. Once for each visit."""
        self.decided[decision.action] += 1
        if decision.action != "pass":
            self.decided[decision.code] += 1
        self.gate.record(visit, decision, status, reference)

    def own_tally(self) -> SiteMetrics:
        """What this process has counted."""
        relay = self.stores.relay
        left_out = relay.left_out if relay is not None else self.watch.left_out if self.watch is not None else 0
        return SiteMetrics(
            decided=dict(self.decided), untouched=dict(self.untouched), upstream_errors=dict(self.upstream_errors),
            challenges=dict(self.challenging.counted), blocked=self.gate.blocked, lost=self.ledger.lost,
            forgotten=self.state.forgotten, left_out=left_out, inside=self.tarpit.inside,
            admitted=self.tarpit.admitted, turned_away=self.tarpit.turned_away, alone=self.state.alone,
        )  # fmt: skip

    def tally(self) -> SiteMetrics:
        """What all processes of this site have counted."""
        tallies = self.stores.tallies
        return self.own_tally() if tallies is None else sum_metrics(self.own_tally(), tallies.all())

    def tell_tally(self) -> None:
        """Let the process beside the workers know what this one has counted."""
        if self.stores.tallies is not None:
            self.stores.tallies.put(msgspec.msgpack.encode(self.own_tally()))

    def pass_untouched(self, reason: str, target: str) -> None:
        """Count a page that could not be read; the first of its kind is logged."""
        self.untouched[reason] += 1
        if self.untouched[reason] == 1:
            log.warning("pages are passed on without hidden links (%s), the first of them %s", reason, ascii(target))

    @property
    def changes_robots(self) -> bool:
        """Whether the site's robots.txt is changed on its way out."""
        return self.disallows_marked or bool(self.refused_agents)

    @property
    def disallows_marked(self) -> bool:
        """Whether robots.txt must tell polite bots to keep off our links: where there are any."""
        return self.settings.traps.enabled or self.rules.marks

    def close(self) -> None:
        """Write what waits, ask nobody anything any more, and look no longer whether the lists change."""
        if self.closed:
            return
        self.closed = True
        if self._intake is not None:
            self._intake.close()
        self._stop_watching.set()
        if self._watching is not None:
            self._watching.join()
        if self.stores.relay is not None:
            self.stores.relay.close()
        if self.watch is not None:
            # Before the journal: what it still finds is to be remembered.
            self.watch.close()
        if self.follower is not None:
            self.follower.close()
        if self.lookups is not None:
            self.lookups.close()
        self.ledger.close()
        if self._journal is not None:
            self._journal.close()
        self.challenging.close()
        self.spent.close()
        if self._own_state:
            self.tell_tally()
            self.state.close()


Headers = list[tuple[bytes, bytes]]

_POLICIES = frozenset({b"content-security-policy", b"content-security-policy-report-only"})
_MOST_LINKED = 4
_COOKIE_AGE = 30 * 86_400


@lru_cache(maxsize=1 << 12)
def _cookie_of(seal: TokenCodec, issued_to: bytes, known: bytes, *, secure: bool) -> bytes:
    """The cookie for a visitor. Who does not keep it gets the same with every page."""
    token = seal.seal("visitor", issued_to, bytes(VISITOR_BYTES), known)
    more = b"; Secure" if secure else b""
    return b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%b" % (VISITOR_COOKIE, token, _COOKIE_AGE, more)


def _readable(target: bytes, token: bytes) -> bytes:
    return target + (b"&" if b"?" in target else b"?") + PARAMETER + b"=" + token


class Page:
    """The answer to one visit: which of its headers change, and how its HTML does."""

    def __init__(self, site: Site, visit: Visit, scheme: str) -> None:
        self._site = site
        self._visit = visit
        self._seal = site.seal(visit)
        self._prefix = site.settings.marker.prefix.encode()
        self._place = PageLocation(scheme.encode(), visit.host.encode("latin-1"), visit.target.encode("latin-1"))
        self._minted_for = visitor_digest(visit.visitor)
        self._parent = site.gate.pages.remember(visit.target)
        self._secure = scheme == "https"
        # Only an opaque address hides where the page is.
        self._marked = visit.raw_target.startswith(site.settings.marker.prefix) if visit.marker else False

    def rewriter(self) -> tuple[Rewriter, Bait | None]:
        """What rewrites the page, and the bait in it."""
        site, traps = self._site, self._site.settings.traps
        bait = Bait(self._minted_for, self._parent) if traps.enabled else None

        def preparer() -> Preparer:
            spacing = Spacing(traps.placement, traps.every) if traps.enabled else None
            return Preparer(self._place, site.rules, self._prefix, marked=self._marked, spacing=spacing)

        fills: dict[Fill, bytes] = {"here": self._visit.raw_target.encode("latin-1"), "base": based(self._place.target)}
        if bait is not None:
            fills |= {"style": bait.style, "lure": bait.lure}
        writer = self._writer = PageWriter(self._seal, self._minted_for, self._parent, fills)
        return Rewriter(preparer, writer, site.skeletons, (self._place, self._marked, id(site.rules))), bait

    def shown_at(self) -> bytes:
        """
        Where the page must be shown instead, as far as it has been written: in readable mode, because it is a script's.

        Such a script (Next, Nuxt, Angular, ...) looks at the address to tell which page it is. b"" where the page may
        stay where it is.
        """
        visit = self._visit
        if not self._marked or visit.marker is None or not self._writer.is_scripted:
            return b""
        token = self._seal.seal("page", self._minted_for, visit.marker.parent, page_digest(visit.target))
        return _readable(visit.target.encode("latin-1"), token)

    def fragment_rewriter(self) -> Rewriter | None:
        """
        What rewrites a fragment that a script has asked for, to put it into its page; None where links stay.

        Its links are marked as those of that page are, which the referrer names. It gets nothing else.
        """
        site = self._site
        if not site.rules.marks:
            return None
        page = resolve(self._visit.referrer.encode("latin-1"), self._place)
        parent = site.gate.pages.remember(page[0].decode("latin-1")) if page else self._parent

        def preparer() -> Preparer:
            return Preparer(self._place, site.rules, self._prefix, marked=False, inserted=True)

        writer = PageWriter(self._seal, self._minted_for, parent, {})
        return Rewriter(preparer, writer, site.skeletons, (self._place, "inserted", id(site.rules)))

    def headers(self, headers: Headers) -> Headers:
        """The headers of any answer, changed where they carry addresses."""
        if not self._site.rules.marks:
            return headers
        return [(name, self._header(name.lower(), value)) for name, value in headers]

    def page_headers(self, headers: Headers, bait: Bait | None = None) -> Headers:
        """Those that a page needs besides: it is for one visitor, no other site's business, and our style must hold."""
        if bait is not None:
            headers = [(n, allow_style(v, bait.style_hash) if n.lower() in _POLICIES else v) for n, v in headers]
        if self._marked and is_deep(self._place.target):
            headers = [(n, allow_base(v) if n.lower() in _POLICIES else v) for n, v in headers]
        if not self._site.rules.marks:
            return headers
        names = {name.lower() for name, _ in headers}
        kept = [
            (n, private(v) if n.lower() == b"cache-control" else v)
            for n, v in headers
            if n.lower() != b"referrer-policy" or keeps_referrers(v)
        ]
        if b"cache-control" not in names:
            kept.append((b"cache-control", b"private"))
        if not any(name.lower() == b"referrer-policy" for name, _ in kept):
            kept.append((b"referrer-policy", b"strict-origin-when-cross-origin"))
        cookie = self._cookie()
        return [*kept, (b"set-cookie", cookie)] if cookie else kept

    def _header(self, name: bytes, value: bytes) -> bytes:
        if name in {b"location", b"content-location"}:
            marked = self.mark(value)
            return value if marked is None else marked
        if name == b"refresh":
            return marked_refresh(value, self.mark)
        if name == b"link":
            return marked_link(value, self.mark)
        return widened_cookie(value) if name == b"set-cookie" else value

    def mark(self, url: bytes) -> bytes | None:
        """The marked form of a link of this page, or None where it stays as it is."""
        found = resolve(url, self._place)
        if found is None:
            return None
        target, fragment = found
        mode = self._site.rules.mode_of(target.decode("latin-1"))
        if mode == "opaque":
            return self._prefix + self._seal.seal("page", self._minted_for, self._parent, target) + fragment
        if mode == "readable":
            token = self._seal.seal("page", self._minted_for, self._parent, page_digest(target.decode("latin-1")))
            return _readable(target, token) + fragment
        return None

    def _cookie(self) -> bytes:
        """A cookie that links this visitor to those that the browser was before; b"" where it has it already."""
        known = self._visit.linked
        if self._minted_for in known:
            return b""
        all_known = b"".join([*known, self._minted_for][-_MOST_LINKED:])
        return _cookie_of(self._seal, self._minted_for, all_known, secure=self._secure)
