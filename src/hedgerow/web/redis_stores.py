"""The stores of gates that share a Redis, and the watch that they share. Needs the extra `redis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.core.ledger import Ledger
from hedgerow.markers.token import visitor_digest
from hedgerow.settings import Settings
from hedgerow.state.redis.address import RedisAddress, RedisUnavailable, parse_redis_address
from hedgerow.state.redis.scripts import Scripts, text
from hedgerow.state.redis.shared_stores import RedisClearanceUsage, RedisRevokedBots, RedisUsedChallenges
from hedgerow.state.redis.state import RedisState
from hedgerow.watch.redis_streams import SharedWatch, Streams, WatchFactory
from hedgerow.watch.relay import Relay
from hedgerow.watch.session_store import StoredSession, stored_session
from hedgerow.watch.watch import Watch
from hedgerow.web.gate import build_policy
from hedgerow.web.paths import redis_prefix
from hedgerow.web.stores import SiteStores, rate_limits, state_limits
from hedgerow.web.watch import build_watch


def build_address(settings: Settings) -> RedisAddress:
    return parse_redis_address(settings.state.url, password=settings.state.password, ca_file=settings.state.ca_file)


def build_redis(settings: Settings, *, timeout: float | None = None) -> RedisState:
    """Build the state. It waits for Redis for *timeout* seconds, by default as long as the settings say."""
    state = settings.state
    return RedisState(
        build_address(settings), rate_limits(settings), prefix=redis_prefix(settings),
        closed=state.on_failure == "closed", timeout=state.timeout if timeout is None else timeout,
        **state_limits(settings),
    )  # fmt: skip


def build_redis_stores(settings: Settings, *, ledger: Ledger) -> SiteStores:
    """Build the stores of one gate of any number."""
    state = build_redis(settings)
    streams = Streams(build_address(settings), redis_prefix(settings))
    return SiteStores(
        state, ledger,
        RedisUsedChallenges(state, most=settings.challenge.spent, closed=settings.state.on_failure == "closed"),
        RedisClearanceUsage(state), RedisRevokedBots(state), runs_watch=settings.watch.enabled,
        relay=Relay(streams.deliver, queue=settings.watch.queue, on_close=streams.close),
        shared_watch=SiteWatch(settings, state),
    )  # fmt: skip


def _watch_maker(settings: Settings) -> WatchFactory:
    policy = build_policy(settings)

    def make(update_score: Callable[[ScoreUpdate], None]) -> tuple[Watch, Watch]:
        paths, sharing = build_watch(settings, policy, update_score), build_watch(settings, policy, update_score)
        paths.sharing, sharing.paths, sharing.windows = None, None, None
        return paths, sharing

    return make


class SiteWatch(SharedWatch):
    """The watch of a site, divided between processes; *state* has the findings of all of them."""

    def __init__(self, settings: Settings, state: RedisState) -> None:
        scripts = Scripts(redis_prefix(settings), (), **state_limits(settings))
        super().__init__(build_address(settings), scripts, _watch_maker(settings))
        self._state = state

    def reload(self, settings: Settings) -> None:
        """Continue under these settings."""
        self.use(_watch_maker(settings))

    def campaigns(self) -> Sequence[Campaign]:
        return read_campaigns(self._state)


def read_session(state: RedisState, visitor: str) -> StoredSession | None:
    """Return what the watches have stored about one visitor, or None."""
    session = state.ask(("GET", _session_key(state, visitor)))
    links = state.ask(("HGET", state.key("ties"), visitor_digest(visitor)))
    return stored_session(0.0, session or b"", links or b"") if session or links else None


def delete_session(state: RedisState, visitor: str) -> bool:
    """Delete what the watches have stored about one visitor. Return whether there was anything."""
    sessions = state.ask(("DEL", _session_key(state, visitor)))
    links = state.ask(("HDEL", state.key("ties"), visitor_digest(visitor)))
    return bool(sessions or links)


def _session_key(state: RedisState, visitor: str) -> bytes:
    return state.key("session:").encode() + text(visitor)


def read_campaigns(state: RedisState) -> Sequence[Campaign]:
    """Return all campaigns in Redis, whichever process found them, the oldest first; none while it is away."""
    try:
        stored = state.ask(("HVALS", state.key("campaigns")))
    except RedisUnavailable:
        return ()
    return sorted((msgspec.json.decode(one, type=Campaign) for one in stored), key=lambda campaign: campaign.since)
