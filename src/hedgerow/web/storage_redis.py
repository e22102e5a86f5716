"""The stores of gates that share a Redis: what `storage` does for one machine. Needs the extra `redis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.core.ledger import Ledger
from hedgerow.settings import Settings
from hedgerow.state.redis.clearance_usage import RedisClearanceUsage
from hedgerow.state.redis.connection import RedisAddress, RedisUnavailable, parse_redis_address
from hedgerow.state.redis.revoked_bots import RedisRevokedBots
from hedgerow.state.redis.scripts import Scripts
from hedgerow.state.redis.state import RedisState
from hedgerow.state.redis.used_challenges import RedisUsedChallenges
from hedgerow.watch.redis_streams import SharedWatch, Streams, WatchFactory
from hedgerow.watch.relay import Relay
from hedgerow.watch.watch import Watch
from hedgerow.web.build import build_policy, build_watch
from hedgerow.web.holdings import SiteStores


def build_address(settings: Settings) -> RedisAddress:
    """Where Redis is."""
    return parse_redis_address(settings.state.url, password=settings.state.password, ca_file=settings.state.ca_file)


def build_redis(settings: Settings, *, patience: float | None = None) -> RedisState:
    """The state, waited for as long as the settings say, or for *patience* seconds."""
    state = settings.state
    return RedisState(
        build_address(settings),
        settings.density.windows if settings.density.enabled else (),
        prefix=state.prefix,
        memory=state.memory,
        most_blocks=state.blocks,
        remember=settings.policy.remember,
        closed=state.on_failure == "closed",
        patience=state.timeout if patience is None else patience,
    )


def build(settings: Settings, *, ledger: Ledger) -> SiteStores:
    """The stores of one process of any number. Who watches does so for all of them."""
    state = build_redis(settings)
    streams = Streams(build_address(settings), settings.state.prefix)
    return SiteStores(
        state, ledger,
        RedisUsedChallenges(state, most=settings.challenge.spent, closed=settings.state.on_failure == "closed"),
        RedisClearanceUsage(state), RedisRevokedBots(state), watches=settings.watch.enabled,
        relay=Relay(streams.deliver, queue=settings.watch.queue, on_close=streams.close),
        shared=SiteWatch(settings, state),
    )  # fmt: skip


def _making(settings: Settings) -> WatchFactory:
    policy = build_policy(settings)

    def make(update_score: Callable[[ScoreUpdate], None]) -> tuple[Watch, Watch]:
        paths, sharing = build_watch(settings, policy, update_score), build_watch(settings, policy, update_score)
        paths.sharing, sharing.paths, sharing.windows = None, None, None
        return paths, sharing

    return make


class SiteWatch(SharedWatch):
    """The shared watch of a site under *settings*; *state* is asked for what all of them have found."""

    def __init__(self, settings: Settings, state: RedisState) -> None:
        own = settings.state
        scripts = Scripts(own.prefix, (), memory=own.memory, most_blocks=own.blocks, remember=settings.policy.remember)
        super().__init__(build_address(settings), scripts, _making(settings))
        self._state = state

    def follow(self, settings: Settings) -> None:
        """Go on under these settings."""
        self.use(_making(settings))

    def campaigns(self) -> Sequence[Campaign]:
        """All that are known, whoever has found them; the oldest first. None while Redis is away."""
        return read_campaigns(self._state)


def read_campaigns(state: RedisState) -> Sequence[Campaign]:
    """All campaigns that are kept in Redis, the oldest first; none while it is away."""
    try:
        kept = state.ask(("HVALS", state.key("campaigns")))
    except RedisUnavailable:
        return ()
    return sorted((msgspec.json.decode(one, type=Campaign) for one in kept), key=lambda campaign: campaign.since)
