"""The scenes: what visitors do. A `Play` sends their requests; what it writes down is not known here."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable
from hashlib import pbkdf2_hmac
from html import unescape
from urllib.parse import urlencode, urljoin

from goldens.exchange import HOST, Answer, Pairs, Request, send
from goldens.forms import Form

Links = dict[str, list[str]]
"""Links of pages by a name that a scene gives them: hidden ones under `NAME!`."""

FIREFOX: Pairs = (
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "deflate"),
)
CURL: Pairs = (("User-Agent", "curl/8.5.0"), ("Accept", "*/*"))
PROGRAM: Pairs = (("User-Agent", "python-requests/2.32"), ("Accept", "application/json"))
NO_HEADERS: Pairs = ()
SCRIPT = (("X-Requested-With", "XMLHttpRequest"), ("Sec-Fetch-Dest", "empty"), ("Sec-Fetch-Site", "same-origin"))
FORM = (("Content-Type", "application/x-www-form-urlencoded"), ("Origin", f"http://{HOST}"))
PAGE = (("Sec-Fetch-Dest", "document"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Site", "none"))
"""What Firefox adds for a page whose address was typed."""
_NAMES = {(*FIREFOX, *PAGE): "Firefox", FIREFOX: "Firefox", CURL: "curl", PROGRAM: "a program", NO_HEADERS: "nothing"}
_TRIES = 20
_MOST_SHOWN = 50
ISSUER = "127.0.0.17"
"""The visitor whose links others use."""


class Play:
    """Sends requests through *form*. *links* are those that pages of an earlier form had."""

    def __init__(self, form: Form, links: Links) -> None:
        self.form = form
        self._links = links

    def note(self, request: Request, answer: Answer, words: str) -> None:
        raise NotImplementedError

    def summarise(self, words: str, answers: list[Answer]) -> None:
        raise NotImplementedError

    @staticmethod
    def shown(request: Request) -> Iterable[tuple[str, str]]:
        """The headers of *request* to write: those of a known client by its name."""
        headers = tuple(request.headers)
        if len(headers) > _MOST_SHOWN:
            return [("(headers", f"{len(headers)} of them)")]
        for client, name in _NAMES.items():
            if client and headers[: len(client)] == client:
                return [("(headers of", f"{name})"), *headers[len(client) :]]
        return headers

    def ask(
        self,
        words: str,
        target: str,
        *,
        address: str,
        client: Pairs = FIREFOX,
        more: Pairs = (),
        method: str = "GET",
        body: bytes = b"",
        chunked: bool = False,
        again: Callable[[Answer], bool] = lambda _: False,
    ) -> Answer:
        """Send a request and note it. While *again* says so, another is sent instead; only the last is noted."""
        # A browser keeps the fragment to itself.
        request = Request(method, target.partition("#")[0], address, _headers(client, more), body, chunked)
        answer = self.form.send(request)
        for _ in range(_TRIES):
            if not again(answer):
                break
            time.sleep(0.5)
            answer = self.form.send(request)
        self.note(request, answer, words)
        return answer

    def ask_many(self, words: str, targets: Iterable[str], *, address: str, client: Pairs = FIREFOX, more: Pairs = (),
                 method: str = "GET") -> None:  # fmt: skip
        """Send requests and note their statuses."""
        answers = [self.form.send(Request(method, target, address, _headers(client, more))) for target in targets]
        self.summarise(words, answers)

    def links_of(self, name: str, answer: Answer) -> tuple[list[str], list[str]]:
        """The links of a page and its hidden links; in a form that writes no pages, those that another form wrote."""
        if self.form.rewrites:
            marked = [link for link in answer.links() if link.startswith("/~") or "~=" in link]
            self._links[name], self._links[f"{name}!"] = marked, answer.hidden_links()
        return self._links.get(name, []), self._links.get(f"{name}!", [])


def _headers(client: Pairs, more: Pairs) -> Pairs:
    is_browser = any(name == "Accept-Language" for name, _ in client)
    says_what_for = any(name.startswith("Sec-Fetch-") for name, _ in more)
    return (*client, *(PAGE if is_browser and not says_what_for else ()), *more)


def referer(path: str) -> tuple[str, str]:
    return ("Referer", f"http://{HOST}{path}")


# ---- Pages


def plain_pages(play: Play) -> None:
    """Plain pages"""
    me = "127.0.0.10"
    home = play.ask("home", "/", address=me)
    play.ask("missing page", "/missing", address=me, more=[("Cookie", home.cookies())] if home.cookies() else ())
    play.ask("style", "/style.css", address=me, more=[referer("/")])
    play.ask("API", "/api/items", address=me, more=SCRIPT)
    play.ask("fragment for a script", "/fragment", address=me, more=[*SCRIPT, referer("/")])
    play.ask("redirect", "/moved?x=1", address=me)
    play.ask("headers with links", "/headers", address=me)
    me = "127.0.0.11"
    play.ask("other character set", "/latin", address=me)
    play.ask("no content", "/empty", address=me)
    play.ask("page of a script framework", "/scripted", address=me)
    play.ask("query and escapes", "/page/%C3%A4?a=1&b=%20&c", address=me)


def followed_links(play: Play) -> None:
    """A person follows links"""
    me = "127.0.0.12"
    home = play.ask("home", "/", address=me)
    links, _ = play.links_of("person", home)
    cookie = ("Cookie", home.cookies() or "other=1")
    second = play.ask("first link", links[0], address=me, more=[cookie, referer("/")])
    further, _ = play.links_of("person, second page", second)
    play.ask("link of that page", further[-1], address=me, more=[cookie, referer(links[0])])
    readable = [link for link in links if link.startswith("/app/")]
    for link in readable[:1]:
        play.ask("readable link", link, address=me, more=[cookie, referer("/")])
    deep = play.ask("page with a policy", "/deep/er/page", address=me, more=[cookie])
    deeper, _ = play.links_of("person, deep page", deep)
    play.ask("link without a cookie", urljoin("/deep/er/page", deeper[0]), address=me)


def conditional(play: Play) -> None:
    """HEAD, ranges, conditions and codings"""
    me = "127.0.0.13"
    home = play.ask("page", "/", address=me)
    play.ask("HEAD of a page", "/", address=me, method="HEAD")
    play.ask("range of an image", "/image.png", address=me, more=[("Range", "bytes=10-19")])
    play.ask("range of a page", "/", address=me, more=[("Range", "bytes=0-9")])
    tag = home.header("etag") or '"home"'
    play.ask("page that is known", "/", address=me, more=[("If-None-Match", tag)])
    me = "127.0.0.14"
    play.ask("image that is known", "/image.png", address=me, more=[("If-None-Match", '"picture"')])
    without = tuple((name, value) for name, value in FIREFOX if name != "Accept-Encoding")
    play.ask("gzip", "/coded", address=me, client=without, more=[("Accept-Encoding", "gzip, br, zstd")])
    play.ask(
        "HEAD of a gzip page", "/coded", address=me, client=without, more=[("Accept-Encoding", "gzip")], method="HEAD"
    )
    play.ask("HEAD of a style", "/style.css", address=me, method="HEAD")


def robots(play: Play) -> None:
    """robots.txt"""
    me = "127.0.0.15"
    play.ask("GET", "/robots.txt", address=me)
    play.ask("HEAD", "/robots.txt", address=me, method="HEAD")
    play.ask("by a program", "/robots.txt", address=me, client=CURL, more=[("Range", "bytes=0-4")])


def posts(play: Play) -> None:
    """POST and other methods"""
    me = "127.0.0.16"
    play.ask("form", "/comment", address=me, more=[*FORM, referer("/")], method="POST", body=b"text=hello&n=1")
    parts = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n'
    kind = ("Content-Type", "multipart/form-data; boundary=x")
    play.ask("parts", "/comment", address=me, more=[kind], method="POST", body=parts)
    play.ask("large body", "/comment", address=me, more=FORM, method="POST", body=b"text=" + b"x" * 200_000)
    play.ask("empty body", "/comment", address=me, more=FORM, method="POST")
    if play.form.name in {"protect", "workers", "asgi"}:
        play.ask("body in chunks", "/comment", address=me, more=FORM, method="POST", body=b"y" * 500, chunked=True)
    play.ask(
        "JSON",
        "/api/items",
        address=me,
        client=PROGRAM,
        more=[("Content-Type", "application/json")],
        method="PUT",
        body=b"{}",
    )
    play.ask("DELETE", "/api/items/1", address=me, client=PROGRAM, method="DELETE")
    play.ask("OPTIONS", "/api/items", address=me, client=PROGRAM, method="OPTIONS")


# ---- Visitors that are stopped


def trap(play: Play) -> None:
    """A crawler follows a hidden link"""
    me, other = "127.0.0.20", "127.0.0.21"
    home = play.ask("home", "/", address=me)
    _, hidden = play.links_of("crawler", home)
    play.ask("another visitor follows the hidden link", hidden[-1], address=other)
    play.ask("prefetched", hidden[0], address=me, more=[("Sec-Purpose", "prefetch")])
    play.ask("the hidden link", hidden[0], address=me, more=[referer("/")])
    refused(play, me)


def refused(play: Play, me: str) -> None:
    """How a refusal looks to different clients"""
    play.ask("again, as a browser", "/page/1", address=me)
    play.ask("again, as curl", "/page/1", address=me, client=CURL)
    play.ask("again, as a program that wants JSON", "/page/1", address=me, client=PROGRAM)
    play.ask("again, by HEAD", "/page/1", address=me, method="HEAD")
    play.ask("again, by a script", "/api/items", address=me, more=SCRIPT)
    play.ask("again, an image", "/image.png", address=me)
    play.ask("again, a form", "/comment", address=me, more=FORM, method="POST", body=b"text=hello")
    play.ask("again, robots.txt", "/robots.txt", address=me)
    play.ask("again, without any header", "/", address=me, client=NO_HEADERS)


def others_links(play: Play) -> None:
    """A visitor uses links that were issued to another"""
    me = "127.0.0.22"
    links, _ = play.links_of("issuer", play.ask("home of the other", "/", address=ISSUER))
    play.ask("first", links[1], address=me)
    play.ask("second", links[2], address=me)
    play.ask("third", links[3], address=me)
    play.ask("page, as a browser", "/page/2", address=me)
    play.ask("page, as a browser in German", "/page/2", address=me, client=_spoken("de-DE,de;q=0.9"))
    play.ask("page, as a program", "/page/2", address=me, client=PROGRAM)
    for n in range(4):
        play.ask(f"goes on, {n + 1}", links[n % 3], address=me)
    play.ask("goes on, as a program", "/page/2", address=me, client=PROGRAM)
    play.ask("form", "/comment", address=me, more=FORM, method="POST", body=b"text=hello")


def _spoken(language: str) -> Pairs:
    return tuple((name, language if name == "Accept-Language" else value) for name, value in FIREFOX)


def tampered(play: Play) -> None:
    """A marked link is changed"""
    me = "127.0.0.23"
    links, _ = play.links_of("issuer", play.ask("home of the other", "/", address=ISSUER))
    changed = links[0][:-3] + ("AB" if links[0][-3:-1] != "AB" else "CD") + links[0][-1]
    play.ask("changed", changed, address=me)
    play.ask("cut", links[0][:-8], address=me)
    play.ask("changed, as a program", changed, address=me, client=PROGRAM)
    play.ask("no token at all", "/~ann/", address=me)


def too_many(play: Play) -> None:
    """Too many pages"""
    me = "127.0.0.24"
    play.ask_many("six pages", [f"/page/{n}" for n in range(6)], address=me)
    play.ask("the seventh", "/page/6", address=me)
    refused(play, me)


def prefetches(play: Play) -> None:
    """Too many prefetched pages"""
    me = "127.0.0.25"
    ahead = [("Sec-Purpose", "prefetch"), referer("/")]
    play.ask("first", "/page/1", address=me, more=ahead)
    play.ask("second", "/page/2", address=me, more=ahead)
    play.ask("third", "/page/3", address=me, more=ahead)
    play.ask("a page", "/page/3", address=me)


def claimed_images(play: Play) -> None:
    """Pages that are requested as images"""
    me = "127.0.0.26"
    image = [("Sec-Fetch-Dest", "image"), ("Sec-Fetch-Site", "same-origin")]
    play.ask_many("six pages", [f"/page/{n}" for n in range(6)], address=me, more=image)
    play.ask("the seventh", "/page/7", address=me, more=image)


def listed(play: Play) -> None:
    """Visitors on the lists"""
    play.ask("black, as a browser", "/", address="127.0.0.66")
    play.ask("black, as a program", "/", address="127.0.0.66", client=PROGRAM)
    play.ask("black user agent", "/page/1", address="127.0.0.27", client=(("User-Agent", "EvilBot/1.0"), *FIREFOX[1:]))
    play.ask_many("white, eight pages", [f"/page/{n}" for n in range(8)], address="127.0.0.67")
    play.ask("white, a page", "/page/1", address="127.0.0.67")


def bots(play: Play) -> None:
    """Bots"""
    monitor = (("User-Agent", "monitor/1.0"), ("Accept", "*/*"))
    play.ask("welcome bot", "/", address="127.0.1.7", client=monitor)
    play.ask_many("welcome bot, eight pages", [f"/page/{n}" for n in range(8)], address="127.0.1.7", client=monitor)
    links, hidden = play.links_of("issuer", play.ask("home of a person", "/", address=ISSUER))
    play.ask("welcome bot at a marked link", links[0], address="127.0.1.7", client=monitor)
    play.ask("welcome bot at a hidden link", hidden[0], address="127.0.1.7", client=monitor)
    seo = (("User-Agent", "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)"), ("Accept", "*/*"))
    play.ask("unwanted bot", "/page/1", address="127.0.0.28", client=seo)


def odd_headers(play: Play) -> None:
    """Headers that contradict each other"""
    chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
    bare = (("User-Agent", chrome),)
    play.ask_many("bare Chrome, six pages", [f"/page/{n}" for n in range(0, 60, 10)], address="127.0.0.29", client=bare)
    headless = (("User-Agent", chrome.replace("Chrome", "HeadlessChrome")), *FIREFOX[1:])
    play.ask("headless Chrome", "/page/1", address="127.0.0.30", client=headless)
    play.ask("curl", "/page/1", address="127.0.0.31", client=CURL)
    play.ask("no headers", "/page/1", address="127.0.0.32", client=NO_HEADERS)


def accounts(play: Play) -> None:
    """Accounts behind one address"""
    me = "127.0.0.33"
    play.ask_many("Eve, seven pages", [f"/page/{n}" for n in range(7)], address=me, more=[("Cookie", "sid=eve")])
    play.ask("Eve again", "/page/1", address=me, more=[("Cookie", "sid=eve")])
    play.ask("Ann", "/page/1", address=me, more=[("Cookie", "sid=ann; other=1")])
    play.ask("nobody", "/page/1", address=me)


def proxied(play: Play) -> None:
    """Behind a trusted proxy"""
    front = "127.0.0.1"
    forwarded = [
        ("X-Forwarded-For", "198.51.100.7"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "shop.example"),
    ]
    play.ask("https", "/", address=front, more=forwarded)
    play.ask("two addresses", "/page/1", address=front, more=[("X-Forwarded-For", "192.0.2.9, 198.51.100.8")])
    play.ask("IPv6", "/page/1", address=front, more=[("X-Forwarded-For", "2001:db8::7")])
    play.ask("not a trusted proxy", "/page/1", address="127.0.0.34", more=forwarded)


# ---- Challenges


def become_suspect(play: Play, me: str) -> None:
    links, _ = play.links_of("issuer", play.ask("home of the other", "/", address=ISSUER))
    play.ask_many("two links of another", links[:2], address=me)


def budget(play: Play) -> None:
    """Pages of a day without a clearance"""
    play.ask_many("ten pages", [f"/page/{n}" for n in (8, 3, 1, 7, 5, 9, 2, 6, 4, 11)], address="127.0.0.43")


def challenge(play: Play) -> None:
    """A visitor must show that it is a person"""
    me = "127.0.0.40"
    become_suspect(play, me)
    play.ask("call of a script", "/api/9", address=me, more=SCRIPT)
    play.ask("program that wants JSON", "/page/1", address=me, client=PROGRAM)
    play.ask("curl", "/page/1", address=me, client=CURL)
    play.ask("HEAD", "/page/1", address=me, method="HEAD")
    play.ask("image", "/image.png", address=me)
    page = play.ask("browser", "/page/1?a=1", address=me)
    for language in ("de", "fr", "es", "ja", "zh"):
        play.ask(f"browser in {language}", "/page/1", address=me, client=_spoken(language))
    assets(play, me, page)
    image = choose(play, me, page, "image")
    answer(play, me, "wrong letters", {**hidden_fields(image), "answer": "wrong"})
    choose(play, me, page, "audio")
    answer(play, me, "neither ticket nor challenge", {"answer": "x"})
    play.ask("answer by GET", "/.hedgerow/answer", address=me)
    play.ask("unknown path", "/.hedgerow/nothing", address=me)
    solved = answer(play, me, "solved", solution_of(page))
    answer(play, me, "solved twice", solution_of(page))
    cookie = ("Cookie", solved.cookies() or "none=1")
    play.ask("page after it", solved.header("location") or "/page/1", address=me, more=[cookie])
    play.ask("page in another language after it", "/page/2", address=me, client=_spoken("de"), more=[cookie])
    play.ask("page from another network after it", "/page/2", address="127.9.9.9", more=[cookie])
    play.ask("page without the cookie", "/page/2", address=me)


def challenged_form(play: Play) -> None:
    """A form is kept while its sender is challenged"""
    me = "127.0.0.41"
    become_suspect(play, me)
    page = play.ask("form", "/comment?id=7", address=me, more=[*FORM, referer("/page/1")], method="POST",
                    body="who=Änne&text=a%0Ab&text=%3Cb%3E".encode())  # fmt: skip
    answer(play, me, "solved", solution_of(page))
    elsewhere = [FORM[0], ("Origin", "http://elsewhere.example"), ("Referer", "http://elsewhere.example/")]
    page = play.ask("form of another site", "/comment", address=me, more=elsewhere, method="POST", body=b"a=1")
    answer(play, me, "solved, the form is lost", solution_of(page))


def challenged_too_often(play: Play) -> None:
    """A visitor with an account becomes a suspect again and again"""
    me, account = "127.0.0.42", ("Cookie", "sid=mallory")
    links, _ = play.links_of("issuer", play.ask("home of the other", "/", address=ISSUER))
    for turn in ("first", "second", "third"):
        play.ask(f"{turn} turn, a link of another", links[0], address=me, more=[account])
        page = play.ask(f"{turn} turn, one more", links[1], address=me, more=[account])
        if page.status == 403:
            body = urlencode(solution_of(page)).encode()
            play.ask(
                f"{turn} turn, answer", "/.hedgerow/answer", address=me, more=[*FORM, account], method="POST", body=body
            )
    play.ask("afterwards, as a browser", "/page/1", address=me, more=[account])
    play.ask("afterwards, as a program", "/page/1", address=me, client=PROGRAM, more=[account])


def choose(play: Play, me: str, page: Answer, kind: str) -> Answer:
    """Choose another kind of challenge. Images and recordings are made in the background: wait for the first."""
    fields = {"ticket": hidden_fields(page).get("ticket", ""), "kind": kind}
    return play.ask(
        f"another kind: {kind}", "/.hedgerow/choose", address=me, more=FORM, method="POST",
        body=urlencode(fields).encode(), again=lambda answer: f"data:{kind}" not in answer.text,
    )  # fmt: skip


def answer(play: Play, me: str, words: str, fields: dict[str, str]) -> Answer:
    body = urlencode(fields).encode()
    return play.ask(words, "/.hedgerow/answer", address=me, more=FORM, method="POST", body=body)


def assets(play: Play, me: str, page: Answer) -> None:
    """What the page loads."""
    for path in dict.fromkeys(re.findall(r'(?:src|href)="(/\.hedgerow/[^"]+)"', page.text)):
        play.ask(f"its file {path.rpartition('/')[2]}", path, address=me)
        play.ask(f"its file {path.rpartition('/')[2]}, HEAD", path, address=me, method="HEAD")


def hidden_fields(page: Answer) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
    return {name: unescape(value) for name, value in found}


def solution_of(page: Answer) -> dict[str, str]:
    """The form that the script of a challenge page sends when it has found the number."""
    found = re.search(r'data-question="([^"]*)"', page.text)
    if found is None:
        return {"answer": ""}
    asked = json.loads(unescape(found[1]))
    parameters = asked["parameters"]
    nonce, salt = bytes.fromhex(parameters["nonce"]), bytes.fromhex(parameters["salt"])
    for number in range(1_000_000):
        key = pbkdf2_hmac("sha256", nonce + number.to_bytes(4), salt, parameters["cost"], parameters["keyLength"])
        if key.hex().startswith(parameters["keyPrefix"]):
            break
    payload = {"challenge": asked, "solution": {"counter": number, "derivedKey": key.hex(), "time": 1.0}}
    return {**hidden_fields(page), "answer": base64.b64encode(json.dumps(payload).encode()).decode()}


# ---- Other settings


def broken_site(play: Play) -> None:
    """The site fails"""
    if not play.form.is_proxy:
        return
    me = "127.0.0.50"
    play.ask("no answer", "/broken", address=me)
    play.ask("no answer, as a program", "/broken", address=me, client=PROGRAM)
    play.ask("long address", "/" + "x" * 20_000, address=me)
    play.ask("many headers", "/", address=me, more=[(f"X-{n}", "1") for n in range(120)])


def slow_site(play: Play) -> None:
    """The site takes too long"""
    if play.form.is_proxy:
        play.ask("too slow", "/slow", address="127.0.0.53")


def wrong_questions(play: Play) -> None:
    """A front asks wrongly"""
    if play.form.rewrites:
        return
    forwarded = [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/"), ("X-Forwarded-For", "127.0.0.51")]
    cases: tuple[tuple[str, str, str, Pairs], ...] = (
        ("not trusted", "/auth", "127.0.0.52", forwarded),
        ("no method", "/auth", "127.0.0.1", forwarded[1:]),
        ("no address", "/auth", "127.0.0.1", forwarded[:1]),
        ("two addresses", "/auth", "127.0.0.1", [*forwarded, ("X-Forwarded-Uri", "/page/1")]),
        ("no such path", "/nothing", "127.0.0.1", forwarded),
        ("unknown reference", "/answer", "127.0.0.1", [*forwarded, ("X-Hedgerow-Ref", "nobody")]),
        ("as Envoy", "/envoy/page/1?a=1", "127.0.0.1", forwarded[2:]),
        ("ban-list client without a token", "/client/lists", "127.0.0.1", []),
    )
    for words, path, address, headers in cases:
        request = Request("GET", path, address, tuple(headers))
        play.note(request, send(play.form.port, request), words)


def detained(play: Play) -> None:
    """A crawler is led into the maze"""
    me = "127.0.0.20"
    home = play.ask("home", "/", address=me)
    links, hidden = play.links_of("detained", home)
    play.ask("link", links[0], address=me)
    play.ask("hidden link", hidden[0], address=me)
    maze = play.ask("page", "/page/1", address=me)
    further, _ = play.links_of("maze", maze)
    if further:
        play.ask("link in the maze", further[0], address=me)
    play.ask("HEAD", "/page/1", address=me, method="HEAD")
    play.ask("program", "/page/1", address=me, client=PROGRAM)
    play.ask("form", "/comment", address=me, more=FORM, method="POST", body=b"a=1")


def observed(play: Play) -> None:
    """Nothing is enforced"""
    me = "127.0.0.20"
    home = play.ask("home", "/", address=me)
    _, hidden = play.links_of("observed", home)
    play.ask("hidden link", hidden[0], address=me)
    play.ask("page", "/page/1", address=me)
    play.ask_many("six pages", [f"/page/{n}" for n in range(6)], address=me)
    play.ask("black", "/", address="127.0.0.66")
    play.ask("robots.txt", "/robots.txt", address=me)


def strict(play: Play) -> None:
    """A site that must be entered by its entries"""
    me = "127.0.0.20"
    play.ask("no entry", "/page/2", address=me)
    play.ask("no entry, as a program", "/page/2", address=me, client=PROGRAM)
    home = play.ask("entry", "/", address=me)
    links, _ = play.links_of("strict", home)
    play.ask("link", links[0], address=me)
    play.ask("asset", "/style.css", address=me)
    for n in range(4):
        play.ask(f"link of another, {n + 1}", links[n], address="127.0.0.21")
    play.ask("suspect", "/", address="127.0.0.21")
    play.ask("robots.txt", "/robots.txt", address=me)


ENFORCED = (
    plain_pages, followed_links, conditional, robots, posts, trap, tampered, too_many, prefetches, claimed_images,
    listed, bots, odd_headers, accounts, proxied, broken_site, wrong_questions,
)  # fmt: skip
CHALLENGED = (challenge, challenged_form, budget, others_links, challenged_too_often)
DETAINED = (plain_pages, followed_links, detained, slow_site)
OBSERVED = (observed, conditional)
STRICT = (strict,)
