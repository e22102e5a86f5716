"""Browsers in process: what Chromium and Firefox send for a click, a frame, an image or a script, and their cookies."""

from __future__ import annotations

import json
import random
import re
from urllib.parse import urlencode

from challenge.solver import solve
from driving import Answer, Application, Client, marked_links_in

FAST = "[challenge]\ndifficulty = 50\nhardest = 400\nstore = 'memory'\n"
HOST = "http://example.org"
EVIL = "https://evil.example/"
ME, OTHER = "192.0.2.1", "198.51.100.7"
CHROME = {
    "sec-ch-ua": '"Chromium";v="140", "Not=A?Brand";v="24"',
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/140.0.0.0 Safari/537.36",
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "sec-fetch-site": "none",
    "sec-fetch-mode": "navigate",
    "sec-fetch-user": "?1",
    "sec-fetch-dest": "document",
    "accept-encoding": "gzip, deflate, br, zstd",
    "accept-language": "en-GB,en;q=0.9",
}
OVER_HTTP = {name: value for name, value in CHROME.items() if not name.startswith("sec-")}
_SCRIPT = re.compile(
    rb'<script (?:type="module" async )?(?:data-)?src="/\.hedgerow/[0-9a-f]{12}/page\.js"'
    rb'(?!(?: async)? data-signs="only")'
)

EMBEDDED = {
    "img": ("no-cors", "image", "image/avif,image/webp,*/*;q=0.8"),
    "script": ("no-cors", "script", "*/*"),
    "style": ("no-cors", "style", "text/css,*/*;q=0.1"),
    "fetch": ("no-cors", "empty", "*/*"),
    "video": ("no-cors", "video", "*/*"),
    "object": ("navigate", "object", CHROME["accept"]),
    "embed": ("navigate", "embed", CHROME["accept"]),
    "iframe": ("navigate", "iframe", CHROME["accept"]),
    "popup": ("navigate", "document", CHROME["accept"]),
}
"""How a page of another site can make a browser ask for something: mode, destination and Accept."""


def word(number: int) -> str:
    """A page whose address has no number."""
    return "/" + "".join("abcdefghij"[int(digit)] for digit in str(number))


def page_at(target: str) -> bytes:
    """A page with twelve links to others, which depend on its address."""
    numbers = random.Random(target).sample(range(1000), 12)
    rows = "".join(f'<p>Words, <a href="{word(number)}">more of them</a>.</p>\n' for number in numbers)
    return f"<!DOCTYPE html><html><head><title>{target}</title></head><body>{rows}</body></html>".encode()


def site(text: str = "", **options: object) -> Client:
    """
    A site with default settings: a browser obtains a clearance by itself, and who has none has k1 pages a day.

    The watch would judge after each test in a thread of its own, at another time each time.
    """
    app = Application(react=lambda scope: {"chunks": (page_at(scope["raw_path"].decode()),)})
    return Client(app, FAST + "[watch]\nenabled = false\n" + text, silent=True, **options)


class Browser:
    """
    Chromium, with its cookies, which other sites cannot send along unless they load a page into a window.

    Without *scripts* it obtains no clearance.
    """

    def __init__(
        self, client: Client, address: str = ME, *, scripts: bool = True, headers: dict[str, str] = CHROME
    ) -> None:
        self.client, self.address, self.scripts, self.headers = client, address, scripts, headers
        self.cookies: dict[str, str] = {}
        self.here = ""

    def send(self, target: str, *, cookies: bool = True, **options: object) -> Answer:
        headers = {**self.headers, **options.pop("headers", {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        if cookies and self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.client.get(target, peer=self.address, headers=headers, **options)
        for name, value in answer.headers:
            if name.lower() == b"set-cookie" and cookies:
                key, _, rest = value.decode().partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return answer

    def read(self, target: str, **headers: str) -> Answer:
        """Open a page by hand: typed at first, then by links."""
        self.client.clock.now += 5
        clicked = {"sec-fetch-site": "same-origin", "referer": HOST + self.here} if self.here else {}
        if "sec-fetch-site" not in self.headers:
            clicked.pop("sec-fetch-site", None)
        page = self.send(target, headers={**clicked, **headers})
        if page.status == 302:
            page = self.send(page.header("location").decode(), headers={**clicked, **headers})
        self.here = target
        if self.scripts and page.status == 200 and _SCRIPT.search(page.body):
            self.clear()
        return page

    def clear(self) -> None:
        """Do what the script of the page does to obtain a clearance."""
        script = {
            "accept": "*/*", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty",
            "sec-fetch-user": None, "referer": HOST + self.here,
        }  # fmt: skip
        task = self.send("/.hedgerow/task", method="POST", headers=script)
        if task.status == 200:
            told = json.loads(task.body)
            answer = {"ticket": told["ticket"], "challenge": told["challenge"], "answer": solve(json.dumps(told))}
            self.send("/.hedgerow/clear", method="POST", headers=script, body=urlencode(answer).encode())

    def embedded(self, target: str, how: str = "img", *, site: str = "cross-site", **options: object) -> Answer:
        """Load what a page of another site embeds. Cookies come along only into a window (SameSite=Lax)."""
        mode, destination, accept = EMBEDDED[how]
        headers = {
            "sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": destination, "sec-fetch-user": None,
            "accept": accept, "referer": EVIL,
        }  # fmt: skip
        if "sec-fetch-site" not in self.headers:
            headers = {name: value for name, value in headers.items() if not name.startswith("sec-")}
        cookies = how == "popup" and options.get("method", "GET") == "GET"
        return self.send(target, cookies=cookies, headers={**headers, **options.pop("headers", {})}, **options)

    def is_undisturbed(self, pages: int = 10) -> bool:
        """Read ten pages by their links; return whether each was shown, and nothing was asked or noted."""
        target, chance = "/start", random.Random(1)
        for _ in range(pages):
            answer = self.read(target)
            decision = next(e.decision for e in reversed(self.client.entries) if not e.visit.path.startswith("/.h"))
            if answer.status != 200 or decision.action != "pass" or decision.owes:
                print(target, answer.status, decision)  # noqa: T201
                return False
            target = chance.choice(marked_links_in(answer.body) or [word(chance.randrange(900))])
        score = next((s for key, s in self.client.site.app.gate.state.scores() if key in self.names), None)
        return score is None or score.identity == "person"

    @property
    def names(self) -> set[str]:
        """The visitors that this browser has been."""
        return {self.address} | {
            entry.visit.visitor for entry in self.client.entries if entry.visit.address == self.address
        }
