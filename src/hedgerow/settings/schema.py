"""
Every setting, with its default. The tables of `hedgerow.toml` are the classes here, one for each room.

A class checks itself: `faults()` yields (setting, sentence) for each value that has the right type and makes no sense;
the third of a list is `name.2`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from hedgerow.challenge.external import Name
from hedgerow.challenge.interfaces import ChallengeKind
from hedgerow.core.address import check_network
from hedgerow.core.settings_table import Faults, Table
from hedgerow.core.settings_table import positive_faults as _positive
from hedgerow.detectors.containment import ContainmentSettings
from hedgerow.detectors.rate_limit import DensitySettings
from hedgerow.detectors.registry import registry
from hedgerow.detectors.trap import TrapSettings
from hedgerow.errors import DetectorError
from hedgerow.markers.rules import Mode
from hedgerow.request.bot_signature import public_key
from hedgerow.request.bots import Bot, BotPolicy, Category

_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?", re.ASCII)
_REDIS = re.compile(
    r"(?:rediss?://(?:[^@/\s]*@)?[^@/\s:]+(?::\d{1,5})?|rediss?://(?:[^@/\s]*@)?\[[0-9A-Fa-f:.]+\](?::\d{1,5})?)(?:/\d*)?|unix:///\S+"
)
_LEAST_MEMORY = 1_000_000
_SHORTEST_TOKEN = 16


def _network_faults(name: str, networks: tuple[str, ...]) -> Faults:
    for network in networks:
        try:
            check_network(network)
        except ValueError as error:
            yield name, f"{error}; write it like 192.0.2.0/24 or 2001:db8::/32"


def split_listen(text: str) -> tuple[str, int]:
    """
    Host and port of `HOST:PORT`; ValueError with a sentence where it is none.

    >>> split_listen("127.0.0.1:8080"), split_listen("[::1]:80"), split_listen(":8080")
    (('127.0.0.1', 8080), ('::1', 80), ('', 8080))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


class ProxySettings(Table, frozen=True):
    """The reverse proxy. Times in seconds, sizes in bytes."""

    upstream: str = ""
    listen: str = "127.0.0.1:8080"
    preserve_host: bool = True
    connect_timeout: float = 5.0
    response_timeout: float = 60.0
    idle_timeout: float = 60.0
    head_timeout: float = 10.0
    shutdown_timeout: float = 30.0
    connections: int = 256
    longest_url: int = 16_384
    header_bytes: int = 65_536
    headers: int = 100
    websocket_message: int = 16_777_216

    def faults(self) -> Faults:
        try:
            split_listen(self.listen)
        except ValueError as error:
            yield "listen", str(error)
        if self.upstream:
            yield from upstream_faults(self.upstream)
        yield from _positive(
            self, "connect_timeout", "response_timeout", "idle_timeout", "head_timeout", "shutdown_timeout",
            "connections", "longest_url", "header_bytes", "headers", "websocket_message",
        )  # fmt: skip


def upstream_faults(upstream: str) -> Faults:
    """What is wrong with an upstream's address."""
    scheme, separator, rest = upstream.partition("://")
    host, _, path = rest.partition("/")
    found = _HOST_AND_PORT.fullmatch(host)
    if scheme not in {"http", "https"} or not separator or found is None:
        yield "upstream", f"{upstream!r} is not an address such as http://127.0.0.1:8000"
    elif path:
        yield "upstream", f"{upstream!r} has a path; name only scheme, host and port"
    elif found[1] and not 0 < int(found[1]) < 65536:  # noqa: PLR2004
        yield "upstream", f"{upstream!r} has no valid port"


class IdentitySettings(Table, frozen=True):
    """Who is asking."""

    trusted_proxies: tuple[str, ...] = ()
    forwarded_header: Literal["x-forwarded-for", "forwarded", "x-real-ip"] = "x-forwarded-for"
    account_cookie: str = ""
    account_header: str = ""
    strikes: int = 3
    bots: tuple[Bot, ...] = ()
    tls_header: str = ""

    def faults(self) -> Faults:
        yield from _network_faults("trusted_proxies", self.trusted_proxies)
        yield from _positive(self, "strikes")
        if self.account_header and not self.trusted_proxies:
            yield "account_header", "is believed from trusted proxies only; name them in trusted_proxies"
        if self.tls_header and not self.trusted_proxies:
            yield "tls_header", "is believed from trusted proxies only; name them in trusted_proxies"
        for number, bot in enumerate(self.bots):
            yield from _network_faults(f"bots.{number}.networks", bot.networks)
            if not bot.name:
                yield f"bots.{number}.name", "must not be empty"
            if not bot.networks:
                yield f"bots.{number}.networks", "must not be empty: a bot is verified by them"


class Signer(Table, frozen=True):
    """A bot that signs its requests: the *host* at which it publishes its keys, or the *keys* themselves."""

    name: str
    category: Category = "other"
    host: str = ""
    keys: tuple[str, ...] = ()

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        if not self.host and not self.keys:
            yield "host", "must not be empty where there are no keys"
        if "/" in self.host:
            yield "host", f"{self.host!r} must be a host alone, such as bot.example"
        for key in self.keys:
            if public_key(key) is None:
                yield "keys", f"{key!r} is no Ed25519 key: 32 bytes in base64url, the x of a JWK"


class BotsSettings(Table, frozen=True):
    """
    Known bots: what becomes of each category once it is verified, and how it is.

    *dns* looks up the names of addresses, at *resolver* or the system's name servers; an answer holds for *true_for* or
    *false_for* seconds. *signatures*: whose are checked. *robots* holds bots to the site's robots.txt, which is read
    every *robots_refresh* seconds; who disobeys is unwelcome for *unwelcome_for* seconds.
    """

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
    signers: tuple[Signer, ...] = ()
    insecure_directories: bool = False
    robots: bool = True
    robots_refresh: float = 3600.0
    unwelcome_for: float = 86_400.0

    def faults(self) -> Faults:
        yield from _positive(self, "true_for", "false_for", "robots_refresh", "unwelcome_for")
        if self.resolver:
            try:
                host, _ = split_listen(self.resolver)
                check_network(host)
            except ValueError:
                yield "resolver", f"{self.resolver!r} is not ADDRESS:PORT, such as 127.0.0.1:53"


class MarkerRule(Table, frozen=True):
    """How links to paths of this form are marked; `*` stands for anything."""

    path: str
    mode: Mode


DEFAULT_MARKER_RULES = (
    MarkerRule("/api/*", "off"),
    MarkerRule("*/api/*", "off"),
    MarkerRule("/graphql*", "off"),
    MarkerRule("*/feed", "off"),
    MarkerRule("*/feed/", "off"),
    MarkerRule("/feed*", "off"),
    MarkerRule("*/rss*", "off"),
    MarkerRule("*.git/*", "off"),
    MarkerRule("/.well-known/*", "off"),
)

SCRIPTED_RULES = (
    # DokuWiki: the sitemap and the media manager send what stands behind the "?" of a link, or of their own address.
    MarkerRule("*?idx=*", "readable"),
    MarkerRule("*/doku.php?*idx=*", "readable"),
    MarkerRule("*?*do=media*", "readable"),
    MarkerRule("*/lib/exe/mediamanager.php", "readable"),
)
"""Links that scripts of well-known applications take apart: in mode "opaque" these come after all other rules."""


class MarkerSettings(Table, frozen=True):
    """
    How links are marked.

    *mode* is for all pages, *rules* say otherwise for some, the first that fits. *strict* closes the site to who
    comes without a marked link, but for the paths in *entries*. *overlap_days*: for how long links sealed under an
    old key open.
    """

    mode: Mode = "opaque"
    rules: tuple[MarkerRule, ...] = DEFAULT_MARKER_RULES
    prefix: str = "/~"
    strict: bool = False
    entries: tuple[str, ...] = ("/",)
    overlap_days: float = 400.0

    def faults(self) -> Faults:
        yield from _positive(self, "overlap_days")
        if not _is_path_start(self.prefix):
            yield (
                "prefix",
                (f"{self.prefix!r} must start with / and hold only letters, digits and . _ ~ - /, no . or .. alone"),
            )
        if self.strict and self.mode == "off" and all(rule.mode == "off" for rule in self.rules):
            yield "strict", "needs marked links; set mode"
        for rule in self.rules:
            if not rule.path.startswith(("/", "*")):
                yield "rules", f"{rule.path!r} must start with / or *"


def _is_path_start(text: str) -> bool:
    """Whether links may start so; clients resolve the segments `.` and `..`, and some drop empty ones."""
    segments = text.split("/")
    return (
        len(text) > 1
        and text[0] == "/"
        and all(c.isascii() and (c.isalnum() or c in "._~-/") for c in text)
        and not any(segment in {"", ".", ".."} for segment in segments[1:-1])
        and segments[-1] != ".."
    )


class PolicySettings(Table, frozen=True):
    """
    From evidence to decision: see `policy.policy.Thresholds`. *weights* are other weights for codes of evidence;
    *timezone* is that of the site's midnight. Times in seconds.

    Who is blocked again within *remember* seconds after a block is blocked *lengthen* times as long as the last time,
    but never longer than *longest_block*.
    """

    suspects: Literal["challenge", "refuse", "pass"] = "challenge"
    refuse_at: float = 1.0
    suspect_at: float = 1.0
    half_life: float = 3600.0
    wrong_from: float = 0.05
    wrong_visits: int = 30
    challenges: int = 2
    block_for: float = 86_400.0
    timezone: str = "UTC"
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    lengthen: float = 2.0
    longest_block: float = 604_800.0
    remember: float = 604_800.0

    def faults(self) -> Faults:
        yield from _positive(self, "longest_block")
        if not (self.lengthen >= 1 and math.isfinite(self.lengthen)):
            yield "lengthen", f"must be at least 1, is {self.lengthen:g}"
        if not (self.remember >= 0 and math.isfinite(self.remember)):
            yield "remember", f"must be at least 0, is {self.remember:g}"
        yield from _positive(
            self, "refuse_at", "suspect_at", "half_life", "wrong_from", "wrong_visits", "challenges", "block_for"
        )
        for code, weight in self.weights.items():
            if not (weight >= 0 and math.isfinite(weight)):
                yield f"weights.{code}", f"must be 0 or more, is {weight}"
        try:
            ZoneInfo(self.timezone)
        except (ValueError, ZoneInfoNotFoundError, OSError):
            yield "timezone", f"{self.timezone!r} is none; write it like Europe/Berlin"


class DetainSettings(Table, frozen=True):
    """The maze: at most so many connections and bytes for all detained clients together; a page takes *seconds*."""

    connections: int = 64
    memory: int = 2_000_000
    seconds: float = 20.0

    def faults(self) -> Faults:
        yield from _positive(self, "connections", "memory", "seconds")


_LEAST_SECONDS = 5.0


class ExternalSettings(Table, frozen=True):
    """
    An external provider of challenges. *script* and *verify* are its addresses, where they are not the usual ones.

    *timeout* is how long it may take to confirm an answer; then the visitor is asked otherwise.
    """

    provider: Name = "turnstile"
    site_key: str = ""
    secret: str = ""
    script: str = ""
    verify: str = ""
    timeout: float = 3.0

    def faults(self) -> Faults:
        yield from _positive(self, "timeout")
        for name in ("script", "verify"):
            value = getattr(self, name)
            if value and not re.fullmatch(r"https?://[^\s\"'<>;,]+", value):
                yield name, f"{value!r} is not an address such as https://example.org/api.js"


class ChallengeSettings(Table, frozen=True):
    """
    What suspects are asked.

    *kinds*: at the visitor's choice; the first is shown first. *seconds*: an answer counts for so long, that to a
    recording for *audio_seconds*. *auto*: a calculation starts without a click. *difficulty* and *hardest*: numbers to
    try for who is not suspected at all, and for the worst. *body*: bytes of a form that are kept. *clear_for*: how long
    a clearance holds; one that comes from *networks* networks within *share_window* seconds has been handed round.
    *spent*: challenges remembered at the most.
    """

    kinds: tuple[ChallengeKind, ...] = ("work", "image", "audio")
    seconds: float = 30.0
    audio_seconds: float = 60.0
    auto: bool = True
    difficulty: int = 5_000
    hardest: int = 50_000
    body: int = 65_536
    pool: int = 32
    clear_for: float = 86_400.0
    networks: int = 3
    share_window: float = 600.0
    spent: int = 100_000
    store: Literal["sqlite", "memory"] = "sqlite"
    path: str = "/.hedgerow/"
    external: ExternalSettings = ExternalSettings()

    def faults(self) -> Faults:
        yield from _positive(
            self, "difficulty", "hardest", "body", "pool", "clear_for", "share_window", "spent",
        )  # fmt: skip
        for name in ("seconds", "audio_seconds"):
            value = getattr(self, name)
            if not (value >= _LEAST_SECONDS and math.isfinite(value)):
                yield name, f"must be at least {_LEAST_SECONDS:g}, is {value:g}: nobody answers faster"
        if not self.kinds:
            yield "kinds", "must not be empty: a suspect needs a way out"
        if len(set(self.kinds)) < len(self.kinds):
            yield "kinds", "must not name one twice"
        if self.hardest < self.difficulty:
            yield "hardest", f"must not be less than difficulty, which is {self.difficulty}"
        if self.networks < 2:  # noqa: PLR2004 - one network is everybody's
            yield "networks", f"must be at least 2, is {self.networks}"
        if not _is_path_start(self.path) or not self.path.endswith("/"):
            yield "path", f"{self.path!r} must start and end with /, and hold only letters, digits and . _ ~ -"
        if "external" in self.kinds:
            for name in ("site_key", "secret"):
                if not getattr(self.external, name):
                    yield f"external.{name}", "is needed where kinds names external"


class ResponseSettings(Table, frozen=True):
    """What refused visitors are told: whom to ask, and the site's name."""

    contact: str = ""
    site: str = ""


OnFailure = Literal["open", "closed"]


class StateSettings(Table, frozen=True):
    """
    The hot memory: at most *memory* bytes of counters (300 for each visitor is plenty) and so many blocks. *durable*:
    blocks and standings outlive a restart, in `state.sqlite` in the directory.

    *url* is that of a Redis or Valkey that all gates of the site share; empty: this machine's memory. Its keys start
    with *prefix*; *password* and *ca_file* are for who keeps them out of the URL. A gate waits for it for *timeout*
    seconds at the most. *on_failure*: while it does not answer, gates go on by themselves, or let nobody in.
    """

    memory: int = 300_000_000
    blocks: int = 100_000
    durable: bool = True
    url: str = ""
    password: str = ""
    ca_file: str = ""
    prefix: str = "hedgerow:"
    timeout: float = 0.03
    on_failure: OnFailure = "open"

    def faults(self) -> Faults:
        yield from _positive(self, "blocks", "timeout")
        if self.memory < _LEAST_MEMORY:
            yield "memory", f"must be at least {_LEAST_MEMORY}, is {self.memory}"
        if self.url and not _REDIS.fullmatch(self.url):
            yield "url", "is not an address such as redis://127.0.0.1:6379/0, rediss://... or unix:///path"
        if not self.prefix or not self.prefix.isascii() or not self.prefix.isprintable():
            yield "prefix", "must be some ASCII characters: other programs may use the same Redis"


def _postgresql_faults(url: str) -> Faults:
    if url and not url.startswith(("postgresql://", "postgres://")):
        # Not told again here: it may hold a password.
        yield "url", "is not an address such as postgresql://hedgerow@127.0.0.1/hedgerow"


class LedgerSettings(Table, frozen=True):
    """
    The extended access log. *path* empty: `ledger.sqlite` in the directory. *queue*: rows waiting at the most.

    *url* is that of a PostgreSQL that all gates of the site share, in place of the file. Rows that it cannot take now
    go to disk, at most *spool* bytes, and are written later. *on_failure*: once rows are lost, the site stays open, or
    lets nobody in.
    """

    enabled: bool = True
    path: str = ""
    keep_days: float = 30.0
    queue: int = 100_000
    url: str = ""
    spool: int = 1_000_000_000
    on_failure: OnFailure = "open"

    def faults(self) -> Faults:
        yield from _positive(self, "keep_days", "queue", "spool")
        yield from _postgresql_faults(self.url)


class ListsSettings(Table, frozen=True):
    """
    White and black lists. *path* empty: `lists.sqlite` in the directory.

    *url* is that of a PostgreSQL that all gates of the site share, in place of the file.
    *asn_file* is a MaxMind file that tells the operators of networks.
    """

    enabled: bool = True
    path: str = ""
    url: str = ""
    asn_file: str = ""

    def faults(self) -> Faults:
        yield from _postgresql_faults(self.url)


class WatchSettings(Table, frozen=True):
    """
    The watch. *enabled*: in the gate's own process; off where `hedgerow watch` runs beside it, or none is wanted.

    *paths*: whoever follows links like a crawler is challenged, or that is only recorded; *windows*: likewise who looks
    like one by its last 27 to 40 visits. *model* and *window_model*: the bundles that say so; empty: that which was
    promoted, else the one that comes with Hedgerow. *shadow*: one that is asked and not heeded; empty: that which
    `hedgerow train` has put there. *queue*: visits that wait at the most. *sessions*: visitors with a pending session
    at the most.
    """

    enabled: bool = True
    paths: Literal["challenge", "record", "off"] = "record"
    windows: Literal["challenge", "record", "off"] = "record"
    model: str = ""
    window_model: str = ""
    shadow: str = ""
    queue: int = 10_000
    sessions: int = 50_000

    def faults(self) -> Faults:
        yield from _positive(self, "queue", "sessions")


class CampaignSettings(Table, frozen=True):
    """
    Campaigns of visitors that use links minted for one another: see `campaigns.sharing.Limits`.

    *response*: members are challenged, or it is only recorded.
    """

    enabled: bool = True
    response: Literal["challenge", "record"] = "challenge"
    members: int = 3
    links: float = 10.0
    share: float = 0.4
    chance: float = 0.0023
    half_life: float = 14_400.0

    def faults(self) -> Faults:
        yield from _positive(self, "links", "share", "chance", "half_life")
        if self.members < 2:  # noqa: PLR2004 - one alone shares with nobody
            yield "members", f"must be at least 2, is {self.members}"
        for name in ("share", "chance"):
            value = getattr(self, name)
            if value >= 1:
                yield name, f"is a share: must be less than 1, is {value:g}"


def _token_faults(token: str) -> Faults:
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or " " in token:
        yield "token", f"must be at least {_SHORTEST_TOKEN} ASCII characters without spaces"


class AdminSettings(Table, frozen=True):
    """
    Health, metrics and the overview, on a listener of their own. Empty: none.

    *token* is what a program must show to read or change lists there.
    """

    listen: str = ""
    token: str = ""

    def faults(self) -> Faults:
        if self.token:
            yield from _token_faults(self.token)
        if self.listen:
            try:
                split_listen(self.listen)
            except ValueError as error:
                yield "listen", str(error)


class ListClient(Table, frozen=True):
    """A ban-list client: its *name*, and the *token* that it shows."""

    name: str
    token: str

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        yield from _token_faults(self.token)


class ServeSettings(Table, frozen=True):
    """
    The service for other servers: where it listens, and which ban-list *clients* may speak to it.

    *spoe*: where HAProxy asks; empty: nowhere. *pending*: refusals that wait for a front to come for them, at the most.
    """

    listen: str = "127.0.0.1:8090"
    spoe: str = ""
    clients: tuple[ListClient, ...] = ()
    pending: int = 10_000

    def faults(self) -> Faults:
        yield from _positive(self, "pending")
        for name, text in (("listen", self.listen), ("spoe", self.spoe or self.listen)):
            try:
                split_listen(text)
            except ValueError as error:
                yield name, str(error)
        for number, client in enumerate(self.clients):
            if any(other.token == client.token for other in self.clients[:number]):
                yield f"clients.{number}.token", "is another's: each client has its own"


class LogsSettings(Table, frozen=True):
    """
    How the logs of `hedgerow report` are written.

    *format* is a name, or the server's own log_format or LogFormat; empty: told by the lines. *fields* says what a JSON
    log or a Parquet file calls our fields. *by* says what is a source.
    """

    format: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    by: Literal["visitor", "address", "prefix", "network", "account", "session"] = "visitor"

    def faults(self) -> Faults:
        names = (
            "time",
            "address",
            "user",
            "request",
            "method",
            "target",
            "query",
            "host",
            "status",
            "referrer",
            "version",
            "agent",
            "session",
        )
        for name in self.fields:
            if name not in names:
                yield "fields", f"no field is called {name!r}; there are {', '.join(names)}"


_T = TypeVar("_T", bound=Table)


class _Settings(Table, frozen=True):
    """
    All settings. *directory* is where key and ledger live; empty: the user's state directory.

    Tables that only a detector reads are not named here: see `Settings`.
    """

    observe: bool = False
    directory: str = ""
    proxy: ProxySettings = ProxySettings()
    identity: IdentitySettings = IdentitySettings()
    bots: BotsSettings = BotsSettings()
    density: DensitySettings = DensitySettings()
    marker: MarkerSettings = MarkerSettings()
    policy: PolicySettings = PolicySettings()
    lists: ListsSettings = ListsSettings()
    traps: TrapSettings = TrapSettings()
    containment: ContainmentSettings = ContainmentSettings()
    detain: DetainSettings = DetainSettings()
    challenge: ChallengeSettings = ChallengeSettings()
    responses: ResponseSettings = ResponseSettings()
    state: StateSettings = StateSettings()
    ledger: LedgerSettings = LedgerSettings()
    watch: WatchSettings = WatchSettings()
    campaigns: CampaignSettings = CampaignSettings()
    logs: LogsSettings = LogsSettings()
    admin: AdminSettings = AdminSettings()
    serve: ServeSettings = ServeSettings()

    def table(self, kind: type[_T]) -> _T:
        """Return the table of the class *kind*."""
        tables: list[Any] = [getattr(self, name) for name in self.__struct_fields__]
        for table in tables:
            if isinstance(table, kind):
                return table
        raise LookupError(f"no settings table is a {kind.__name__}")


def _detector_tables() -> list[tuple[str, type[Table], Table]]:
    """Return the tables that detectors bring along, but for those that have a field above."""
    fixed = {field.name: field.type for field in msgspec.structs.fields(_Settings)}
    tables = registry().tables()
    for name, kind in tables.items():
        if fixed.get(name, kind) is not kind:
            raise DetectorError(f"the settings table {name!r} cannot be a detector's: choose another name")
    return [(name, kind, kind()) for name, kind in tables.items() if name not in fixed]


if TYPE_CHECKING:
    Settings = _Settings
else:
    Settings = msgspec.defstruct(
        "Settings", _detector_tables(), bases=(_Settings,), module=__name__, frozen=True, forbid_unknown_fields=True
    )  # fmt: skip
