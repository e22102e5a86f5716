"""
The same requests through every form of Hedgerow, under several settings, and all that can be seen of the results.

For each request a recording has the status, the headers and the body of the response, and what of the request reached
the site. After the requests it has the pages of the admin listener, the rows of the ledger, and what `explain`,
`visitors show` and `lists show` say. Each scene has visitors of its own, which are addresses of the loopback network.
"""

from __future__ import annotations

import http.client
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from goldens import forms, scenes
from goldens.checkout import Checkout
from goldens.exchange import Answer, Bodies, Request, head_of, send
from goldens.forms import Form
from goldens.normalise import (
    CLEARED_RULES,
    HEADER_RULES,
    MARKS,
    REPLAY_RULES,
    REQUEST_IDS,
    STATE_RULES,
    hide,
    normalise,
)
from goldens.scenes import Links, Play

_METRIC = re.compile(r"^(?P<name>\w+(?:\{[^}]*\})?) (?P<value>\S+)$", re.MULTILINE)
_COUNTED = (
    "hedgerow_visits", "hedgerow_stopped", "hedgerow_challenges", "hedgerow_blocked", "hedgerow_upstream_errors",
    "hedgerow_pages_untouched", "hedgerow_listed",
)  # fmt: skip
_MOST_EXPLAINED = 8
_LONGEST_TARGET = 1_000
_START = 1_800_000_000.0


class Profile(NamedTuple):
    """Settings, what is put on the lists before the start, and the scenes that are played under them."""

    name: str
    settings: str
    scenes: tuple[Callable[[Play], None], ...]
    lists: tuple[tuple[str, ...], ...] = ()


_BASE = """
{observe}
[identity]
trusted_proxies = ["127.0.0.1/32"]
account_cookie = "sid"

[[identity.bots]]
name = "monitor"
networks = ["127.0.1.0/24"]

[bots]
dns = false
seo = "refuse"

[responses]
contact = "webmaster@example.org"

[challenge]
seconds = 300.0
audio_seconds = 300.0
difficulty = 50
hardest = 100

[[serve.clients]]
name = "shop"
token = "token-of-the-golden-client"
"""
ENFORCE = Profile(
    "enforce",
    _BASE.format(observe="")
    + """
[density]
windows = [{ count = 6, seconds = 600.0, of = "pages" }, { count = 2, seconds = 600.0, of = "prefetches" }]

[marker]
rules = [{ path = "/app/*", mode = "readable" }, { path = "/api/*", mode = "off" }]

""",
    scenes.ENFORCED,
    (
        ("black", "127.0.0.66", "--reason", "a scraper", "--author", "golden"),
        ("black", "agent:*EvilBot*", "--reason", "its name", "--author", "golden"),
        ("white", "127.0.0.67", "--reason", "a monitor", "--author", "golden"),
    ),
)
CHALLENGE = Profile(
    "challenge",
    _BASE.format(observe="")
    + """
[density]
windows = [{ count = 1000, seconds = 600.0, of = "pages" }]

[containment]
enabled = true
k1 = 9

[policy]
weights = { minted-for-another = 0.6 }
silent = 0
""",
    scenes.CHALLENGED,
)
DETAIN = Profile(
    "readable-detain",
    _BASE.format(observe="")
    + """
[density]
windows = [{ count = 6, seconds = 600.0, of = "pages" }]
response = "detain"

[marker]
mode = "readable"

[traps]
placement = "links"
every = 1
response = "detain"

[detain]
seconds = 0.2

[proxy]
response_timeout = 6.0
""",
    scenes.DETAINED,
)
OBSERVE = Profile(
    "observe",
    _BASE.format(observe="observe = 'links'")
    + """
[density]
windows = [{ count = 3, seconds = 600.0, of = "pages" }]

[marker]
mode = "off"
rules = []
""",
    scenes.OBSERVED,
    (("black", "127.0.0.66", "--reason", "a scraper", "--author", "golden"),),
)
STRICT = Profile(
    "strict",
    _BASE.format(observe="")
    + """
[marker]
strict = true
entries = ["/", "/page/1"]

[policy]
suspects = "refuse"
weights = { minted-for-another = 0.6 }

[traps]
enabled = false
""",
    scenes.STRICT,
)
PROFILES = (ENFORCE, CHALLENGE, DETAIN, OBSERVE, STRICT)


def record(
    checkout: Checkout,
    folder: Path,
    kinds: Iterable[type[Form]] = forms.ALL,
    profiles: Iterable[Profile] = PROFILES,
    *,
    after: bool = True,
) -> None:
    """Play all scenes of *profiles* in all forms. With *after*, also record what they leave behind."""
    for profile in profiles:
        # Of a form that writes pages, for those that do not: with the same keys the links are the same.
        links: Links = {}
        for kind in kinds:
            began = time.monotonic()
            target = folder / "traffic" / profile.name
            target.mkdir(parents=True, exist_ok=True)
            with forms.running(kind, checkout, profile.settings, partial(_fill, profile)) as form:
                play = Recording(form, links, Bodies(folder / "traffic"))
                for scene in profile.scenes:
                    play.scene(scene)
                text = play.text()
                admin = _admin(form) if form.admin is not None else ""
            (target / f"{form.name}.txt").write_text(text, "utf-8")
            if admin and after:
                (target / f"{form.name}.admin.txt").write_text(admin, "utf-8")
            if after:
                (target / f"{form.name}.state.txt").write_text(_state(form, play.references), "utf-8")
            print(f"    {profile.name}, {form.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if after:
        from goldens import banlist

        banlist.record(checkout, folder / "traffic")


def record_small(checkout: Checkout, folder: Path) -> None:
    """Record the main scenes in front of a site and for another server."""
    record(checkout, folder, (forms.Protect, forms.Serve), (ENFORCE,), after=False)
    record(checkout, folder, (forms.Protect,), (CHALLENGE,), after=False)


def _fill(profile: Profile, form: Form) -> None:
    """Put the entries of *profile* on the lists."""
    added = form.checkout.run_all(
        [(("lists", "add", *entry, "--config", str(form.config)), {}) for entry in profile.lists]
    )
    for done in added:
        if done.status:
            raise SystemExit(f"golden: cannot fill the lists:\n{done.text()}")


class Recording(Play):
    """Writes what it sends and gets."""

    def __init__(self, form: Form, links: Links, bodies: Bodies) -> None:
        super().__init__(form, links)
        self._bodies = bodies
        self._lines: list[str] = []
        self._scene = ""
        self.references: list[str] = []

    def text(self) -> str:
        return hide("".join(self._lines), self.form.temporary())

    def scene(self, scene: Callable[[Play], None]) -> None:
        self._scene = (scene.__doc__ or "").strip()
        self._lines.append(f"\n{'=' * 20} {self._scene}\n")
        try:
            scene(self)
        except (LookupError, OSError, http.client.HTTPException, ValueError) as error:
            # A page without the links that the scene follows, or no response at all: a difference like any other.
            self._lines.append(f"\n(the scene ends early: {error!r})\n")

    def note(self, request: Request, answer: Answer, words: str) -> None:
        """Write one exchange."""
        sent = "".join(f"> {name}: {value}\n" for name, value in self.shown(request))
        # An answer to a challenge is random, and so is its length.
        is_answer = request.target.startswith("/.hedgerow/")
        length = f" with {len(request.body)} bytes" if request.body and not is_answer else ""
        is_cleared = any(name == "Cookie" and "hedgerow-clearance=" in value for name, value in request.headers)
        more = CLEARED_RULES if is_cleared else ()
        self._lines += [
            f"\n--- {words}\n> {request.method} {_shown_target(request.target)}, from {request.address}{length}\n",
            normalise(sent, HEADER_RULES),
            head_of(answer, more),
            self._bodies.write(answer, f"{self._scene}, {words}", more),
            *(_received(one, request) for one in self.form.received()),
        ]
        self.references += re.findall(r"ref=([0-9A-F]{4}-[0-9A-F]{4})", answer.header("hedgerow-decision"))

    def summarise(self, words: str, answers: list[Answer]) -> None:
        """Write only the statuses of several exchanges."""
        self._lines.append(f"\n--- {words}: {' '.join(str(answer.status) for answer in answers)}\n")
        self.form.received()


def _shown_target(target: str) -> str:
    target = normalise(target, MARKS)
    return target if len(target) <= _LONGEST_TARGET else f"{target[:40]}... ({len(target)} characters)"


def _received(one: dict[str, object], request: Request) -> str:
    """What the site received, where it is not what the visitor sent."""
    sent = [(name.lower(), value) for name, value in request.headers] + [("host", "example.org")]
    headers = [(str(name).lower(), str(value)) for name, value in one["headers"]]  # type: ignore[attr-defined]
    length = f" with {one['body']} bytes" if one["body"] else ""
    lines = [f"= the site received {one['method']} {one['target']}{length}\n"]
    lines += [
        f"=   added: {name}: {normalise(value, REQUEST_IDS)}\n" for name, value in headers if (name, value) not in sent
    ]
    lines += [f"=   removed: {name}\n" for name, value in sent if (name, value) not in headers]
    return "".join(lines)


def _admin(form: Form) -> str:
    """The pages of the admin listener."""
    assert form.admin is not None
    _wait_for_counts(form.admin)
    bodies = Bodies(form.folder)
    parts = []
    for method, target in (
        ("GET", "/"), ("GET", "/health"), ("GET", "/metrics"), ("GET", "/blocks"), ("GET", "/campaigns"),
        ("GET", "/models"), ("GET", "/lists"), ("GET", "/nothing"), ("POST", "/forgive"), ("PUT", "/"),
    ):  # fmt: skip
        answer = send(form.admin, Request(method, target, "127.0.0.1", []), host="127.0.0.1")
        body = bodies.write(answer, target)
        if target == "/metrics":
            body = _METRIC.sub(_metric, body)
        parts.append(f"\n--- {method} {target}\n{head_of(answer)}{normalise(body, STATE_RULES)}")
    wrong = send(form.admin, Request("GET", "/", "127.0.0.1", []), host="elsewhere.example")
    parts.append(f"\n--- GET / under another name\n{head_of(wrong)}{bodies.write(wrong, 'another name')}")
    return hide("".join(parts), form.temporary())


def _wait_for_counts(port: int) -> None:
    """Wait until nothing is counted any more. Workers tell their counts once a second; the watch is a little behind."""
    last = b""
    for _ in range(30):
        time.sleep(1.5)
        now = send(port, Request("GET", "/metrics", "127.0.0.1", []), host="127.0.0.1").body
        if now == last:
            return
        last = now
    raise SystemExit("golden: the metrics do not come to rest")


def _metric(found: re.Match[str]) -> str:
    """A metric with its value, where that depends on the requests alone and not on memory or on the watch's pace."""
    counted = found["name"].startswith(_COUNTED) and "_created" not in found["name"]
    return f"{found['name']} {found['value'] if counted else '(value)'}"


def _state(form: Form, references: list[str]) -> str:
    """What is left when the servers have stopped: files, ledger, and what commands say of it."""
    parts = ["files: " + " ".join(sorted(path.name for path in form.state.iterdir())) + "\n"]
    parts += [_schema(path) for path in sorted(form.state.glob("*.sqlite"))]
    parts.append(_ledger(form.state / "ledger.sqlite"))
    commands: list[tuple[str, ...]] = [
        ("visitors", "show"),
        ("visitors", "block", "192.0.2.5", "--for", "1h", "--reason", "because"),
        ("visitors", "show", "192.0.2.5"),
        ("visitors", "show", "--json"),
        ("visitors", "forgive", "192.0.2.5"),
        ("visitors", "forgive", "192.0.2.6"),
        ("lists", "show"),
        ("lists", "show", "--json"),
        ("campaigns", "show"),
        ("models", "show"),
    ]
    commands += [("explain", reference) for reference in references[:_MOST_EXPLAINED]]
    if form.name == "protect" and (form.state / "ledger.sqlite").exists():
        commands += [("replay", "ledger.sqlite", "--json", "-"), ("report", "ledger.sqlite", "--json", "-")]
        _retime(form.state / "ledger.sqlite", form.folder / "ledger.sqlite")
    outputs = form.checkout.run_all(
        [((*command, "--config", str(form.config)), {}) for command in commands], form.folder
    )
    for command, done in zip(commands, outputs, strict=True):
        shown = " ".join("(reference)" if word in references else word for word in command)
        parts.append(f"\n$ hedgerow {shown}\n{normalise(done.text(), (*STATE_RULES, *REPLAY_RULES))}")
    return hide("".join(parts), form.temporary())


def _schema(path: Path) -> str:
    """The tables of a SQLite file."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return f"\n{path.name}, version {version}:\n" + "".join(f"{sql}\n" for (sql,) in rows)


def _retime(ledger: Path, copy: Path) -> None:
    """Copy a ledger, with a visit every quarter of a second: what a report finds in it depends on the pauses."""
    with sqlite3.connect(ledger) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        target.execute("UPDATE visits SET at = ? + 0.25 * id", (_START,))
    source.close()
    target.commit()
    target.close()


def _ledger(path: Path) -> str:
    """The rows of the ledger, without their moments and references."""
    lines = ["\nvisits in the ledger:\n"]
    if not path.exists():
        return "\nno ledger\n"
    with sqlite3.connect(path) as connection:
        cursor = connection.execute("SELECT * FROM visits ORDER BY id")
        names = [column[0] for column in cursor.description]
        for row in cursor:
            cells = {
                name: value for name, value in zip(names, row, strict=True) if value not in {None, "", 0, b"", "[]"}
            }
            for name in ("id", "at"):
                cells.pop(name, None)
            texts = [f"{k}={v.hex() if isinstance(v, bytes) else v}" for k, v in cells.items()]
            lines.append(normalise(" ".join(texts), STATE_RULES) + "\n")
    connection.close()
    return "".join(lines)
