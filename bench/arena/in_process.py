"""
Hedgerow and its watch in this process, around the wiki, with a clock that is set by hand; and browsers for it.

Settings are the default ones. Each visit reaches the watch at once, not after a moment. Images and recordings have an
answer that is known here: so these visitors read every one of them, which no program can.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from urllib.parse import urlencode

import driving
from bench.arena import wiki
from challenge.solver import ANSWER, hidden, solve
from driving import Answer, Application
from hedgerow.challenge.captcha import Captcha
from hedgerow.web.challenge import endpoint
from real.crawling import CHROME

HOST = "http://example.org"
_HEADERS = {name.lower(): value for name, value in CHROME.items() if name != "Connection"}
_FORM = "application/x-www-form-urlencoded"
_SCRIPT = {"accept": "*/*", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "sec-fetch-site": "same-origin"}
_PAGE_SCRIPT = re.compile(rb"<script (?:type=\"module\" async )?(?:data-)?src=\"/\.hedgerow/[^\"]*/page\.js\"")
_LINK = re.compile(rb'<a href="([^"]+)">')
_MARK = re.compile(r"[?&]~=[\w.-]+")


def plain(link: str) -> str:
    """A link without its mark, as the address bar shows it."""
    return _MARK.sub("", link)


class SimulatedSite(driving.Client):
    """A site whose pages are those of *page*, which returns None where there is none."""

    def __init__(self, page: Callable[[str], bytes | None] = wiki.page, settings: str = "") -> None:
        endpoint.make_image = endpoint.make_audio = lambda: Captcha(ANSWER, "image/png", b"content")

        def react(scope: dict[str, object]) -> dict[str, object]:
            raw, query = scope["raw_path"], scope["query_string"]
            assert isinstance(raw, bytes)
            assert isinstance(query, bytes)
            body = page((raw + b"?" * bool(query) + query).decode("latin-1"))
            return {"chunks": (body,)} if body is not None else {"status": 404, "chunks": (b"<h1>None</h1>",)}

        super().__init__(Application(react=react), settings, silent=True)
        watch = self.site.watch
        assert watch is not None
        self.site.app.gate.on_decision = watch.watch.see

    def close(self) -> None:
        driving.OPEN.remove(self.site)
        self.site.close()


class SimulatedBrowser:
    """
    A browser at *address*. Without *scripts* it obtains no silent clearance; without *cookies* it keeps none. With
    *by_hand* its script reports keys that were pressed on each page, as when somebody reads by keyboard.

    `challenges` and `refusals` count the pages that it saw instead of others.
    """

    def __init__(
        self,
        site: SimulatedSite,
        address: str,
        *,
        scripts: bool = True,
        cookies: bool = True,
        reads_images: bool = True,
        by_hand: bool = False,
    ) -> None:
        self._by_hand = by_hand
        self.site, self.address, self.scripts, self.keeps = site, address, scripts, cookies
        self._reads_images = reads_images
        self.cookies: dict[str, str] = {}
        self.here = ""
        self.body = b""
        self.pages = 0
        self.challenges = 0
        self.refusals = 0
        self.codes: list[str] = []
        self.work: list[int] = []
        """The numbers to try for each calculation that was solved; 0 for an image."""

    def ask(self, target: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        given = {**_HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.site.get(target, peer=self.address, method=method, body=body, headers=given)
        for name, value in answer.headers:
            if name.lower() == b"set-cookie" and self.keeps:
                key, _, rest = value.decode().partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return answer

    def type(self, target: str) -> bool:
        """Open an address that was typed."""
        return self._open(target)

    def click(self, link: str) -> bool:
        return self._open(link, sec_fetch_site="same-origin", referer=HOST + self.here)

    def _open(self, target: str, **headers: str) -> bool:
        """Return whether the page came at once. A challenge is solved, and the page asked for again."""
        if self._by_hand and self.here:
            self._report()
        answer = self.ask(target, **headers)
        came = answer.status == 200
        if not came:
            answer = self._solve(answer, target, **headers)
        if answer.status == 200:
            self.pages += 1
            self.here, self.body = plain(target) if self.scripts else target, answer.body
            if self.scripts and _PAGE_SCRIPT.search(answer.body):
                self.clear()
        return came

    def _solve(self, answer: Answer, target: str, **headers: str) -> Answer:
        decision = (answer.header("hedgerow-decision") or b"").decode()
        self.codes.append(decision)
        fields = hidden(answer.body)
        if not decision.startswith("challenge") or "challenge" not in fields:
            self.refusals += 1
            return answer
        self.challenges += 1
        question = re.search(rb'data-question="([^"]*)"', answer.body)
        if not self.scripts or not (question or self._reads_images):
            return answer
        asked = unescape(question[1].decode()) if question else ""
        self.work.append(json.loads(asked)["most"] if asked else 0)
        body = urlencode({**fields, "answer": solve(asked) if asked else ANSWER}).encode()
        sent = {"content_type": _FORM, "sec_fetch_site": "same-origin"}
        self.ask("/.hedgerow/answer", method="POST", body=body, **sent)
        return self.ask(target, **headers)

    def clear(self) -> None:
        """Do what the script of a page does."""
        script = {name.replace("-", "_"): value for name, value in _SCRIPT.items()}
        task = self.ask("/.hedgerow/task", method="POST", referer=HOST + self.here, **script)
        if task.status != 200:
            return
        told = json.loads(task.body)
        self.work.append(told["question"]["most"])
        fields = {name: told[name] for name in ("ticket", "challenge")} | {"answer": solve(json.dumps(told))}
        body = urlencode(fields).encode()
        self.ask("/.hedgerow/clear", method="POST", body=body, referer=HOST + self.here, content_type=_FORM, **script)

    def _report(self) -> None:
        """Do what the script of a page does when the page is left."""
        script = {name.replace("-", "_"): value for name, value in _SCRIPT.items()}
        fields = {"report": 1, "page": self.pages, "visible": 2_000, "keys": 4, "clicks": 1}
        body = urlencode(fields).encode()
        self.ask("/.hedgerow/signs", method="POST", body=body, referer=HOST + self.here, content_type=_FORM, **script)

    def links(self) -> list[str]:
        """The links that can be seen."""
        return [unescape(link.decode()) for link in _LINK.findall(driving.without_bait(self.body))]
