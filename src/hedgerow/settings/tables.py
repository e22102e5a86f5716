"""The tables of `hedgerow.toml` that do not belong to a detector: every setting with its default and its checks."""

from __future__ import annotations

import math
import re
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from hedgerow.challenge.external import Name
from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.core.address import check_network
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.markers.rules import Mode
from hedgerow.request.bot_signature import public_key
from hedgerow.request.bots import CATEGORIES, Bot, BotPolicy, Category
from hedgerow.settings import checks


class ProxySettings(Table, frozen=True):
    upstream: str = ""
    listen: str = "127.0.0.1:8080"
    preserve_host: bool = True
    rewrite_addresses: bool = True
    own_addresses: tuple[str, ...] = ()
    connect_timeout: float = 5.0
    response_timeout: float = 60.0
    idle_timeout: float = 60.0
    head_timeout: float = 10.0
    shutdown_timeout: float = 30.0
    connections: int = 256
    client_connections: int = 10_000
    connections_per_address: int = 500
    longest_url: int = 16_384
    header_bytes: int = 65_536
    headers: int = 100
    websocket_message: int = 16_777_216

    def faults(self) -> Faults:
        yield from checks.listen_faults("listen", self.listen)
        if self.upstream:
            yield from checks.upstream_faults(self.upstream)
        for address in self.own_addresses:
            for _, sentence in checks.upstream_faults(address):
                yield "own_addresses", sentence
        yield from positive_faults(
            self, "connect_timeout", "response_timeout", "idle_timeout", "head_timeout", "shutdown_timeout",
            "connections", "client_connections", "connections_per_address",
            "longest_url", "header_bytes", "headers", "websocket_message",
        )  # fmt: skip


class IdentitySettings(Table, frozen=True):
    trusted_proxies: tuple[str, ...] = ()
    forwarded_header: Literal["x-forwarded-for", "forwarded", "x-real-ip"] = "x-forwarded-for"
    account_cookie: str = ""
    account_header: str = ""
    strikes: int = 3
    bots: tuple[Bot, ...] = ()
    tls_header: str = ""

    def faults(self) -> Faults:
        yield from checks.network_faults("trusted_proxies", self.trusted_proxies)
        yield from positive_faults(self, "strikes")
        for name in ("account_header", "tls_header"):
            if getattr(self, name) and not self.trusted_proxies:
                yield name, "is believed from trusted proxies only; name them in trusted_proxies"
        for number, bot in enumerate(self.bots):
            yield from checks.network_faults(f"bots.{number}.networks", bot.networks)
            if not bot.name:
                yield f"bots.{number}.name", "must not be empty"
            if not bot.networks:
                yield f"bots.{number}.networks", "must not be empty: a bot is verified by them"


class Signer(Table, frozen=True):
    """A bot that signs its requests: the *host* that publishes its keys, or the *keys* themselves."""

    name: str
    category: Category = "other"
    host: str = ""
    keys: tuple[str, ...] = ()

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        if not self.host and not self.keys:
            yield "host", "must not be empty if there are no keys"
        if "/" in self.host:
            yield "host", f"{self.host!r} must be only a host, such as bot.example"
        for key in self.keys:
            if public_key(key) is None:
                yield "keys", f"{key!r} is not an Ed25519 key: 32 bytes in base64url, the x of a JWK"


class BotsSettings(Table, frozen=True):
    enabled: bool = True
    search: BotPolicy = "pass"
    ai_training: BotPolicy = "contain"
    ai_search: BotPolicy = "pass"
    ai_assistant: BotPolicy = "pass"
    archive: BotPolicy = "pass"
    monitoring: BotPolicy = "pass"
    preview: BotPolicy = "pass"
    feed: BotPolicy = "pass"
    seo: BotPolicy = "contain"
    other: BotPolicy = "contain"
    dns: bool = True
    resolver: str = ""
    true_for: float = 86_400.0
    false_for: float = 3600.0
    signatures: Literal["known", "any", "off"] = "known"
    hosts: tuple[str, ...] = ()
    signers: tuple[Signer, ...] = ()
    insecure_directories: bool = False
    license: str = ""
    robots: bool = True
    robots_refresh: float = 3600.0
    unwelcome_for: float = 86_400.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "true_for", "false_for", "robots_refresh", "unwelcome_for")
        if self.license and not re.fullmatch(r"https?://[^\s\"'<>;,]+", self.license):
            yield "license", f"{self.license!r} is not an address such as https://example.org/license.xml"
        for name in (category.replace("-", "_") for category in CATEGORIES):
            if getattr(self, name) == "license" and not self.license:
                yield name, "needs the address of the terms; set license"
        for host in self.hosts:
            if not re.fullmatch(r"[\w.-]+(?::\d+)?|\[[0-9A-Fa-f:]+\](?::\d+)?", host, re.ASCII):
                yield "hosts", f"{host!r} must be only a host, such as www.example.org"
        if self.resolver:
            try:
                host, _ = checks.split_listen(self.resolver)
                check_network(host)
            except ValueError:
                yield "resolver", f"{self.resolver!r} is not ADDRESS:PORT, such as 127.0.0.1:53"


class MarkerRule(Table, frozen=True):
    """The mode of links to paths of this form. `*` stands for anything."""

    path: str
    mode: Mode


DEFAULT_MARKER_RULES = tuple(
    MarkerRule(path, "off")
    for path in (
        "/api/*", "*/api/*", "/graphql*", "*/feed", "*/feed/", "/feed*", "*/rss*", "*.git/*", "/.well-known/*",
    )
)  # fmt: skip
# DokuWiki: the sitemap and the media manager send the text after the "?" of a link, or of their own address.
SCRIPTED_RULES = tuple(
    MarkerRule(path, "readable")
    for path in ("*?idx=*", "*/doku.php?*idx=*", "*?*do=media*", "*/lib/exe/mediamanager.php")
)
"""Links that scripts of well-known applications parse. In mode "opaque" these rules come after all others."""


class MarkerSettings(Table, frozen=True):
    mode: Mode = "clean"
    rules: tuple[MarkerRule, ...] = DEFAULT_MARKER_RULES
    prefix: str = "/~"
    strict: bool = False
    closed: tuple[str, ...] = ()
    entries: tuple[str, ...] = ("/",)
    never_opaque: tuple[str, ...] = ()
    overlap_days: float = 400.0
    page_bytes: int = 5_000_000
    page_links: int = 20_000

    def faults(self) -> Faults:
        yield from positive_faults(self, "overlap_days", "page_bytes", "page_links")
        if not checks.is_path_start(self.prefix):
            yield (
                "prefix",
                f"{self.prefix!r} must start with / and contain only letters, digits and . _ ~ - /, no . or .. alone",
            )
        if self.mode == "off" and all(rule.mode == "off" for rule in self.rules):
            for name in ("strict", "closed"):
                if getattr(self, name):
                    yield name, "needs marked links; set mode"
        paths = {
            "rules": [rule.path for rule in self.rules], "closed": self.closed, "entries": self.entries,
            "never_opaque": self.never_opaque,
        }  # fmt: skip
        for name, patterns in paths.items():
            for path in patterns:
                if not path.startswith(("/", "*")):
                    yield name, f"{path!r} must start with / or *"


class PolicySettings(Table, frozen=True):
    suspects: Literal["challenge", "refuse", "pass"] = "challenge"
    refuse_at: float = 1.0
    suspect_at: float = 1.0
    half_life: float = 3600.0
    wrong_from: float = 0.05
    wrong_visits: int = 30
    challenges: int = 2
    silent: int = 3
    block_for: float = 86_400.0
    timezone: str = "UTC"
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    lengthen: float = 2.0
    longest_block: float = 604_800.0
    remember: float = 604_800.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "longest_block")
        yield from checks.minimum_faults(self, lengthen=1, remember=0, silent=0)
        yield from positive_faults(
            self, "refuse_at", "suspect_at", "half_life", "wrong_from", "wrong_visits", "challenges", "block_for"
        )
        for code, weight in self.weights.items():
            if not (weight >= 0 and math.isfinite(weight)):
                yield f"weights.{code}", f"must be 0 or more, is {weight}"
        try:
            ZoneInfo(self.timezone)
        except (ValueError, ZoneInfoNotFoundError, OSError):
            yield "timezone", f"{self.timezone!r} is not a time zone; write it like Europe/Berlin"


class ExternalSettings(Table, frozen=True):
    """An external provider of challenges. *script* and *verify* replace its usual addresses."""

    provider: Name = "turnstile"
    site_key: str = ""
    secret: str = ""
    script: str = ""
    verify: str = ""
    timeout: float = 3.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "timeout")
        for name in ("script", "verify"):
            value = getattr(self, name)
            if value and not re.fullmatch(r"https?://[^\s\"'<>;,]+", value):
                yield name, f"{value!r} is not an address such as https://example.org/api.js"


class ChallengeSettings(Table, frozen=True):
    kinds: tuple[ChallengeKind, ...] = ("work", "image", "audio")
    seconds: float = 30.0
    audio_seconds: float = 60.0
    auto: bool = True
    silent: bool = True
    difficulty: int = 10_000
    hardest: int = 500_000
    body: int = 65_536
    pool: int = 32
    clear_for: float = 86_400.0
    wrong_answers: int = 20
    networks: int = 3
    share_window: float = 600.0
    spent: int = 100_000
    store: Literal["sqlite", "memory"] = "sqlite"
    path: str = "/.hedgerow/"
    external: ExternalSettings = ExternalSettings()

    def faults(self) -> Faults:
        yield from positive_faults(
            self, "difficulty", "hardest", "body", "pool", "clear_for", "share_window", "spent", "wrong_answers",
        )  # fmt: skip
        yield from checks.minimum_faults(self, ": nobody answers faster", seconds=5, audio_seconds=5)
        if not self.kinds:
            yield "kinds", "must not be empty: a suspect needs a way out"
        if len(set(self.kinds)) < len(self.kinds):
            yield "kinds", "must not contain a kind twice"
        if self.hardest < self.difficulty:
            yield "hardest", f"must not be less than difficulty, which is {self.difficulty}"
        # Every clearance has one network.
        yield from checks.minimum_faults(self, networks=2)
        if not checks.is_path_start(self.path) or not self.path.endswith("/"):
            yield "path", f"{self.path!r} must start and end with /, and contain only letters, digits and . _ ~ -"
        if "external" in self.kinds:
            for name in ("site_key", "secret"):
                if not getattr(self.external, name):
                    yield f"external.{name}", "is needed if kinds contains external"


class ResponseSettings(Table, frozen=True):
    contact: str = ""
    site: str = ""


class DetainSettings(Table, frozen=True):
    """The budget of the tarpit for all detained clients together."""

    connections: int = 64
    memory: int = 2_000_000
    seconds: float = 20.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "connections", "memory", "seconds")


_MODEL_NAMES = {
    "model": ("boosted", "pathmarker"),
    "window_model": ("window",),
    "shadow": ("boosted", "pathmarker", "window"),
}
"""The models that come with Hedgerow."""
_FILE = re.compile(r"[/\\.]")
_MIN_JUDGED, _MAX_SESSION = 5, 250


class WatchSettings(Table, frozen=True):
    enabled: bool = True
    paths: Literal["auto", "challenge", "record", "off"] = "auto"
    windows: Literal["auto", "challenge", "record", "off"] = "auto"
    model: str = ""
    window_model: str = ""
    shadow: str = ""
    queue: int = 10_000
    sessions: int = 50_000
    long_session: int = 60
    short_session_gap: float = 10.0
    judge_at: tuple[int, ...] = (10, 20, 30, 40, 50, 60)
    window_min: int = 27
    window_max: int = 40

    def faults(self) -> Faults:
        yield from positive_faults(self, "queue", "sessions", "short_session_gap")
        for name, names in _MODEL_NAMES.items():
            value = getattr(self, name)
            if value and value not in names and not _FILE.search(value):
                yield name, f"no model is called {value!r}; write {' or '.join(names)}, or the path of a file"
        yield from checks.minimum_faults(self, long_session=5, window_min=5)
        for name in ("long_session", "window_max"):
            if getattr(self, name) > _MAX_SESSION:
                yield name, f"must be at most {_MAX_SESSION}, is {getattr(self, name)}"
        if self.window_max < self.window_min:
            yield "window_max", f"must be at least window_min, {self.window_min}, is {self.window_max}"
        if not self.judge_at or list(self.judge_at) != sorted(set(self.judge_at)) or self.judge_at[0] < _MIN_JUDGED:
            yield "judge_at", f"must be increasing numbers of pages from {_MIN_JUDGED} on, such as [10, 20, 60]"
        elif self.judge_at[-1] > self.long_session:
            yield "judge_at", f"must not exceed long_session, {self.long_session}, but contains {self.judge_at[-1]}"


class CampaignSettings(Table, frozen=True):
    enabled: bool = True
    response: Literal["challenge", "record"] = "challenge"
    members: int = 3
    links: float = 10.0
    share: float = 0.4
    chance: float = 0.0023
    half_life: float = 14_400.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "links", "share", "chance", "half_life")
        # One visitor shares with nobody.
        yield from checks.minimum_faults(self, members=2)
        for name in ("share", "chance"):
            value = getattr(self, name)
            if value >= 1:
                yield name, f"is a share: must be less than 1, is {value:g}"


_FIELDS = (
    "time", "address", "user", "request", "method", "target", "query", "host", "status", "referrer", "version", "agent",
    "session",
)  # fmt: skip


class LogsSettings(Table, frozen=True):
    format: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    by: Literal["visitor", "address", "prefix", "network", "account", "session"] = "visitor"

    def faults(self) -> Faults:
        for name in self.fields:
            if name not in _FIELDS:
                yield "fields", f"no field is called {name!r}; use one of {', '.join(_FIELDS)}"


class ReportSettings(Table, frozen=True):
    """The prefilter of `report --method pubcrawl`, in requests on a source's busiest day. 0: scaled to the log."""

    crawler_from: int = 0
    judged_from: int = 0

    def faults(self) -> Faults:
        yield from checks.minimum_faults(self, crawler_from=0, judged_from=0)
        if 0 < self.crawler_from <= self.judged_from:
            yield "crawler_from", f"must be above judged_from, {self.judged_from}"


_HEADER_NAME = re.compile(r"[A-Za-z0-9-]*")


class LoggingSettings(Table, frozen=True):
    """The log of a running service. *request_id* is the header with the id of a request; empty: none."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json", "logfmt"] = "text"
    per_second: int = 20
    request_id: str = "x-request-id"

    def faults(self) -> Faults:
        yield from positive_faults(self, "per_second")
        if not _HEADER_NAME.fullmatch(self.request_id):
            yield "request_id", f"{self.request_id!r} is not the name of a header, such as x-request-id"


AdminRole = Literal["viewer", "operator"]
"""A viewer sees everything and changes nothing."""


class AdminUser(Table, frozen=True):
    """A person who may log in to the dashboard. *password* is what `hedgerow password` printed, never the password."""

    name: str
    password: str
    role: AdminRole = "operator"

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        if not self.password.startswith("$argon2id$"):
            yield "password", "must be a line that `hedgerow password` printed, not the password itself"


_SHORTEST_REPORT_PERIOD = 3600


class AdminSettings(Table, frozen=True):
    """Dashboard, API, health, metrics and lists. *token* and *viewer_token* are for programs."""

    listen: str = ""
    token: str = ""
    viewer_token: str = ""
    users: tuple[AdminUser, ...] = ()
    session_hours: float = 12.0
    report_every: float = 0.0

    @property
    def needs_login(self) -> bool:
        """Whether this machine needs a login as well."""
        return bool(self.token or self.viewer_token or self.users)

    def faults(self) -> Faults:
        yield from positive_faults(self, "session_hours")
        if self.report_every and not self.report_every >= _SHORTEST_REPORT_PERIOD:
            yield "report_every", f"must be 0 (never) or at least {_SHORTEST_REPORT_PERIOD} seconds"
        for name in ("token", "viewer_token"):
            if token := getattr(self, name):
                yield from ((name, sentence) for _, sentence in checks.token_faults(token))
        if self.token and self.token == self.viewer_token:
            yield "viewer_token", "is the same as token: a viewer could change everything"
        for number, user in enumerate(self.users):
            if any(other.name == user.name for other in self.users[:number]):
                yield f"users.{number}.name", f"{user.name!r} stands twice"
        if self.listen:
            yield from checks.admin_listen_faults("listen", self.listen)


class ListClient(Table, frozen=True):
    """A client of the ban-list service."""

    name: str
    token: str

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        yield from checks.token_faults(self.token)


class ServeSettings(Table, frozen=True):
    listen: str = "127.0.0.1:8090"
    spoe: str = ""
    clients: tuple[ListClient, ...] = ()
    pending: int = 10_000

    def faults(self) -> Faults:
        yield from positive_faults(self, "pending")
        yield from checks.listen_faults("listen", self.listen)
        yield from checks.listen_faults("spoe", self.spoe or self.listen)
        for number, client in enumerate(self.clients):
            if any(other.token == client.token for other in self.clients[:number]):
                yield f"clients.{number}.token", "is the token of another client: each client needs its own"
