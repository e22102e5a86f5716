"""The stores of gates that share a Redis, and the watch that they share. Needs the extra `redis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.core.ledger import Ledger
from hedgerow.settings import Settings
from hedgerow.state.redis.address import RedisAddress, RedisUnavailable, parse_redis_address
from hedgerow.state.redis.scripts import Scripts
from hedgerow.state.redis.shared_stores import RedisClearanceUsage, RedisRevokedBots, RedisUsedChallenges
from hedgerow.state.redis.state import RedisState
from hedgerow.watch.redis_streams import SharedWatch, Streams, WatchFactory
from hedgerow.watch.relay import Relay
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


def read_campaigns(state: RedisState) -> Sequence[Campaign]:
    """Return all campaigns in Redis, whichever process found them, the oldest first; none while it is away."""
    try:
        stored = state.ask(("HVALS", state.key("campaigns")))
    except RedisUnavailable:
        return ()
    return sorted((msgspec.json.decode(one, type=Campaign) for one in stored), key=lambda campaign: campaign.since)
