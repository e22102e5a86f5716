"""One HTTP request and its response, and how they are written into a golden file."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import NamedTuple

from goldens.normalise import BODY_RULES, HEADER_RULES, Rule, normalise

Pairs = Sequence[tuple[str, str]]
HOST = "example.org"
TIMEOUT = 30.0
_LONGEST_STYLE = 200
_LARGEST_BODY = 20_000
_TEXTS = ("text/", "application/json", "application/x-ndjson")
_STYLE = re.compile(r"<style>([^<]*)</style>")
_HREF = re.compile(r'<(?!link)[a-z]+\s[^>]*?\b(?:href|src|action)="([^"]*)"')
_HIDDEN_LINK = re.compile(
    r'<(?:(?:span|datalist) class="[a-z]{5}" [^>]+><a|noscript><a class="[a-z]{5}") href="([^"]*)">[^<]*</a></\w+>'
    r'|<a class="(?:share[-_][a-z]{5}|[a-z]{5}[-_]share)" href="([^"]*)"></a>'
)


class Request(NamedTuple):
    """What a visitor sends from *address*, with its headers in this order."""

    method: str
    target: str
    address: str
    headers: Pairs
    body: bytes = b""
    chunked: bool = False


class Answer(NamedTuple):
    """A response, its body without any chunks of the transfer. *missing* bytes were announced and never sent."""

    status: int
    reason: str
    headers: Pairs
    body: bytes
    missing: int = 0

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def text(self) -> str:
        body = gzip.decompress(self.body) if self.header("content-encoding") == "gzip" and self.body else self.body
        charset = "latin-1" if "iso-8859-1" in self.header("content-type") else "utf-8"
        return body.decode(charset, "backslashreplace")

    def hidden_links(self) -> list[str]:
        """The links of the page that people do not see."""
        return [unescape(found[1] or found[2]) for found in _HIDDEN_LINK.finditer(self.text)]

    def links(self) -> list[str]:
        """All other links, in their order."""
        return [unescape(link) for link in _HREF.findall(_HIDDEN_LINK.sub("", self.text))]

    def cookies(self) -> str:
        """What a browser would send back."""
        return "; ".join(value.partition(";")[0] for key, value in self.headers if key.lower() == "set-cookie")


def send(port: int, request: Request, host: str = HOST) -> Answer:
    """Send one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT, source_address=(request.address, 0))
    try:
        connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
        for name, value in (("Host", host), *request.headers):
            connection.putheader(name, value)
        if request.chunked:
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders([request.body[:100], request.body[100:]], encode_chunked=True)
        else:
            if request.body or request.method == "POST":
                connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body or None)
        with connection.getresponse() as response:
            missing = 0
            try:
                body = response.read()
            except http.client.IncompleteRead as incomplete:
                body, missing = incomplete.partial, incomplete.expected or 0
            return Answer(response.status, response.reason, response.getheaders(), body, missing)
    finally:
        connection.close()


class Bodies:
    """Writes bodies; one that was there before is written as a reference, and long styles go to files of their own."""

    def __init__(self, folder: Path) -> None:
        self._styles = folder / "styles"
        self._known: dict[str, str] = {}

    def write(self, answer: Answer, name: str, more: tuple[Rule, ...] = ()) -> str:
        """The body of *answer* as text of a golden file. *name* is what later references call it."""
        if not answer.body:
            return ""
        is_text = answer.header("content-type").startswith(_TEXTS)
        if not is_text or (len(answer.body) > _LARGEST_BODY and not _is_page(answer)):
            return f"({len(answer.body)} bytes, sha256 {hashlib.sha256(answer.body).hexdigest()})\n"
        text = normalise(_STYLE.sub(self._shorten, answer.text), (*BODY_RULES, *more))
        if text in self._known:
            return f"(the body of: {self._known[text]})\n"
        self._known[text] = name
        return text if text.endswith("\n") else f"{text}\n(no line break at the end)\n"

    def _shorten(self, found: re.Match[str]) -> str:
        style = found[1]
        if len(style) <= _LONGEST_STYLE:
            return found[0]
        name = hashlib.sha256(style.encode()).hexdigest()[:12] + ".css"
        self._styles.mkdir(exist_ok=True)
        (self._styles / name).write_text(style.replace("}", "}\n"), "utf-8")
        return f"<style>(styles/{name})</style>"


def _is_page(answer: Answer) -> bool:
    return answer.header("content-type").startswith("text/html")


def head_of(answer: Answer, more: tuple[Rule, ...] = ()) -> str:
    """Status and headers as text of a golden file."""
    lines = []
    for name, value in answer.headers:
        line = normalise(f"{name}: {value}", (*HEADER_RULES, *more))
        if name.lower() == "content-length" and answer.body and int(value) == len(answer.body):
            # Random parts of a body vary in length.
            line = f"{name}: (length of the body)"
        elif name.lower() == "content-length" and int(value) and answer.header("hedgerow-decision"):
            # The body that a GET would get has dates in it, which vary in length.
            line = f"{name}: (length for GET)"
        elif name.lower() == "hedgerow-decision":
            line = re.sub(r"ref=[0-9A-F]{4}-[0-9A-F]{4}", "ref=(reference)", line)
        lines.append(f"< {line}\n")
    cut = "(the body ends early)\n" if answer.missing else ""
    return f"< {answer.status} {answer.reason}\n{''.join(lines)}{cut}"
