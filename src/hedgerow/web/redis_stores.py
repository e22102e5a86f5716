"""The stores of gates that share a Redis, and the watch that they share. Needs the extra `redis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.core.ledger import Ledger
from hedgerow.settings import Settings
from hedgerow.state.redis.address import RedisAddress, RedisUnavailable, parse_redis_address
from hedgerow.state.redis.clearance_usage import RedisClearanceUsage
from hedgerow.state.redis.revoked_bots import RedisRevokedBots
from hedgerow.state.redis.scripts import Scripts
from hedgerow.state.redis.state import RedisState
from hedgerow.state.redis.used_challenges import RedisUsedChallenges
from hedgerow.watch.redis_streams import SharedWatch, Streams, WatchFactory
from hedgerow.watch.relay import Relay
from hedgerow.watch.watch import Watch
from hedgerow.web.gate import build_policy
from hedgerow.web.stores import SiteStores, rate_limits
from hedgerow.web.watch import build_watch


def build_address(settings: Settings) -> RedisAddress:
    return parse_redis_address(settings.state.url, password=settings.state.password, ca_file=settings.state.ca_file)


def build_redis(settings: Settings, *, patience: float | None = None) -> RedisState:
    """Build the state; it waits for Redis as long as the settings say, or for *patience* seconds."""
    state = settings.state
    return RedisState(
        build_address(settings),
        rate_limits(settings),
        prefix=state.prefix,
        memory=state.memory,
        most_blocks=state.blocks,
        remember=settings.policy.remember,
        closed=state.on_failure == "closed",
        patience=state.timeout if patience is None else patience,
    )


def build_redis_stores(settings: Settings, *, ledger: Ledger) -> SiteStores:
    """Build the stores of one gate of any number."""
    state = build_redis(settings)
    streams = Streams(build_address(settings), settings.state.prefix)
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
    """The watch of a site under *settings*, divided between processes; *state* has what all of them have found."""

    def __init__(self, settings: Settings, state: RedisState) -> None:
        own = settings.state
        scripts = Scripts(own.prefix, (), memory=own.memory, most_blocks=own.blocks, remember=settings.policy.remember)
        super().__init__(build_address(settings), scripts, _watch_maker(settings))
        self._state = state

    def reload(self, settings: Settings) -> None:
        """Go on under these settings."""
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
