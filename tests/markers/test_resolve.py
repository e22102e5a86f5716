"""Where a link leads: by examples, and as a slow reading of the URL standard says."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.markers.resolve import PageLocation, resolve
from property_tests import examples

HERE = PageLocation(b"http", b"example.org", b"/docs/start.html?x=1")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (b"/", b"/"),
        (b"/a/b?c=d&e=f", b"/a/b?c=d&e=f"),
        (b"next.html", b"/docs/next.html"),
        (b"./next.html", b"/docs/next.html"),
        (b"../a", b"/a"),
        (b"../../../a", b"/a"),
        (b".", b"/docs/"),
        (b"..", b"/"),
        (b"a/../b", b"/docs/b"),
        (b"/a/./b/../c", b"/a/c"),
        (b"/.?", b"/?"),
        (b"/..?x=1", b"/?x=1"),
        (b"/a/%2e%2E/c", b"/c"),
        (b"/a/..", b"/"),
        (b"/a/...", b"/a/..."),
        (b"/.well-known/x", b"/.well-known/x"),
        (b"?y=2", b"/docs/start.html?y=2"),
        (b"?", b"/docs/start.html?"),
        (b"/a?../b", b"/a?../b"),
        (b"a:b", None),
        (b"./a:b", b"/docs/a:b"),
        (b"/a:b", b"/a:b"),
        (b"http://example.org/a", b"/a"),
        (b"http://example.org", b"/"),
        (b"http://example.org?q", b"/?q"),
        (b"HTTP://Example.ORG:80/a", b"/a"),
        (b"http://user:secret@example.org/a", b"/a"),
        (b"//example.org/a", b"/a"),
        (b"//example.org", b"/"),
        (b"\\\\example.org\\a", b"/a"),
        (b"/\\example.org/a", b"/a"),
        (b"http:/a", b"/a"),
        (b"http:a", b"/docs/a"),
        (b"http:///example.org/a", b"/a"),
        (b"https://example.org/a", None),
        (b" /a\n", b"/a"),
        (b"/a\n/b\tc", b"/a/bc"),
        (b"\x00/a", b"/a"),
        (b"/a b", b"/a%20b"),
        (b"/caf\xc3\xa9", b"/caf%C3%A9"),
        (b"/a?q=caf\xc3\xa9 \"<>'", b"/a?q=caf%C3%A9%20%22%3C%3E%27"),
        (b"/a'b", b"/a'b"),
        (b"/a\\b", b"/a/b"),
        (b"/a?b\\c", b"/a?b\\c"),
        (b"/%zz%", b"/%zz%"),
        (b"//other.example/a", None),
        (b"http://other.example/", None),
        (b"http://example.org:8080/", None),
        (b"http://example.org.evil.example/", None),
        (b"http://example.org@evil.example/", None),
        (b"/\\evil.example/", None),
        (b"\\/evil.example/", None),
        (b"ht\ntp://evil.example/", None),
        (b"mailto:a@example.org", None),
        (b"javascript:void(0)", None),
        (b"JavaScript:/a", None),
        (b" java\nscript:x", None),
        (b"data:text/html,x", None),
        (b"tel:1", None),
        (b"ftp://example.org/a", None),
        (b"about:blank", None),
        (b"blob:http://example.org/x", None),
        (b"", None),
        (b"  ", None),
        (b"/.//evil.example/", None),
        (b"/a/..//evil.example/", None),
        (b"/a/..\\/evil.example/", None),
        (b"http://example.org//evil.example/", None),
    ],
)
def test_where_a_link_leads(url, target):
    assert resolve(url, HERE) == (None if target is None else (target, b""))
    if target is not None:
        assert resolve(url.rstrip() + b"#top", HERE) == (target, b"#top")


@pytest.mark.parametrize("url", [b"#", b"#top", b"#/a?b"])
def test_a_fragment_alone_leads_nowhere(url):
    assert resolve(url, HERE) is None


def test_the_fragment_stays():
    assert resolve(b"/a#b#c?d", HERE) == (b"/a", b"#b#c?d")
    assert resolve(b"/a#", HERE) == (b"/a", b"#")
    assert resolve(b"../a b#c d", HERE) == (b"/a%20b", b"#c%20d")


@pytest.mark.parametrize(
    ("scheme", "host", "url", "same"),
    [
        (b"https", b"example.org", b"https://example.org:443/", True),
        (b"https", b"example.org", b"https://example.org:80/", False),
        (b"http", b"example.org:8080", b"http://example.org:8080/", True),
        (b"http", b"example.org:8080", b"http://example.org/", False),
        (b"http", b"example.org:80", b"http://example.org/", True),
        (b"http", b"example.org", b"http://example.org:/", True),
        (b"http", b"[::1]:8080", b"http://[::1]:8080/", True),
        # Behind a proxy that does not say what the browser speaks.
        (b"", b"example.org", b"https://example.org/", True),
        (b"", b"example.org", b"http://example.org:80/", True),
        (b"", b"example.org", b"//example.org/", True),
        (b"", b"example.org", b"https://example.org:80/", False),
        # A mark must not keep a visitor on http.
        (b"http", b"example.org", b"https://example.org/", False),
        (b"https", b"example.org", b"http://example.org/", False),
    ],
)
def test_the_same_origin(scheme, host, url, same):
    assert resolve(url, PageLocation(scheme, host, b"/")) == ((b"/", b"") if same else None)


# ---- A slow reference: the URL standard's parser, state by state, for the schemes that we follow


def percent(text: bytes, also: bytes) -> bytes:
    return b"".join(b"%%%02X" % c if c <= 0x20 or c >= 0x7F or c in also else bytes((c,)) for c in text)


class Slow:
    """A URL taken apart character by character."""

    def __init__(self, url: bytes, place: PageLocation) -> None:
        self.rest = bytes(c for c in url.strip(bytes(range(0x21))) if c not in b"\t\n\r")
        self.host, self.scheme = place.host, place.scheme
        base, _, query = place.target.partition(b"?")
        self.path = base.split(b"/")[1:]
        self.query: bytes | None = query
        self.fragment: bytes | None = None
        self.place = place

    def take(self, *, until: bytes) -> bytes:
        taken = b""
        while self.rest and self.rest[0] not in until:
            taken, self.rest = taken + self.rest[:1], self.rest[1:]
        return taken

    def run(self) -> tuple[bytes, bytes] | None:
        match = re.match(rb"[A-Za-z][A-Za-z0-9+\-.]*:", self.rest)
        if match:
            scheme, self.rest = match[0][:-1].lower(), self.rest[match.end() :]
            if scheme != self.place.scheme:
                return None
            self.scheme = scheme
            slashes = re.match(rb"[/\\]*", self.rest)[0]
            if len(slashes) >= 2:
                self.rest = self.rest[len(slashes) :]
                return self.authority()
        elif re.match(rb"[/\\]{2}", self.rest):
            self.rest = self.rest[2:]
            return self.authority()
        if not self.rest or self.rest[:1] == b"#":
            # The page itself: nothing to mark.
            return None
        if self.rest[:1] in b"/\\":
            self.rest = self.rest[1:]
            self.path = []
        elif self.rest[:1] != b"?":
            self.path.pop()
        else:
            return self.query_and_fragment()
        return self.segments()

    def authority(self) -> tuple[bytes, bytes] | None:
        said = self.take(until=b"/\\?#")
        host = said.rpartition(b"@")[2].lower()
        own = self.place.host.lower()
        for scheme, port in ((b"http", b":80"), (b"https", b":443")):
            if self.scheme == scheme:
                host = host.removesuffix(port)
            if self.place.scheme == scheme:
                own = own.removesuffix(port)
        if host.removesuffix(b":") != own.removesuffix(b":"):
            return None
        self.path = []
        self.rest = self.rest[1:] if self.rest[:1] in {b"/", b"\\"} else self.rest
        return self.segments()

    def segments(self) -> tuple[bytes, bytes] | None:
        while True:
            segment = self.take(until=b"/\\?#")
            more = self.rest[:1] in {b"/", b"\\"}
            plain = re.sub(rb"%2[eE]", b".", segment)
            if plain == b"..":
                self.path[-1:] = []
            if plain in {b".", b".."}:
                if not more:
                    self.path.append(b"")
            else:
                self.path.append(percent(segment, b'"<>`{}^|'))
            if not more:
                return self.query_and_fragment()
            self.rest = self.rest[1:]

    def query_and_fragment(self) -> tuple[bytes, bytes] | None:
        target = b"/" + b"/".join(self.path)
        if target.startswith(b"//"):
            # Written as it is it would name a host.
            return None
        if self.rest[:1] == b"?":
            self.rest = self.rest[1:]
            target += b"?" + percent(self.take(until=b"#"), b"\"<>'")
        return target, b"#" * bool(self.rest) + percent(self.rest[1:], b'"<>`')


PARTS = st.sampled_from(
    [
        b"/",
        b"//",
        b"\\",
        b".",
        b"..",
        b"./",
        b"../",
        b"%2e",
        b"%2E",
        b"a",
        b"b.html",
        b"index.php",
        b"?",
        b"&",
        b"=",
        b"#",
        b":",
        b"http:",
        b"https:",
        b"HTTP://",
        b"mailto:",
        b"javascript:",
        b"example.org",
        b"EXAMPLE.org",
        b"other.example",
        b"@",
        b":80",
        b":443",
        b" ",
        b"\t",
        b"\n",
        b"\x00",
        b"\xc3\xa9",
        b"'",
        b'"',
        b"<",
        b"`",
        b"{",
        b"|",
        b"^",
        b"%",
        b"%41",
        b"~",
        b";",
        b"+",
    ]
)
URLS = st.one_of(st.lists(PARTS, max_size=8).map(b"".join), st.binary(max_size=12))
PLACES = st.builds(
    PageLocation,
    st.sampled_from([b"http", b"https"]),
    st.sampled_from([b"example.org", b"example.org:80", b"example.org:443", b"Example.org"]),
    st.sampled_from([b"/", b"/a", b"/a/", b"/a/b.html", b"/a/b/c?d=/e/f", b"/?q", b"/a//b", b"//a/b"]),
)


@given(URLS, PLACES)
@example(b"/a/%2e", HERE)
@example(b"a%2e%2e/b", HERE)
@example(b"//", HERE)
@examples(1_500)
@pytest.mark.no_cover
def test_the_same_as_the_slow_reference(url, place):
    found = resolve(url, place)
    slow = Slow(url, place).run()
    if found is not None:
        # The fragment of a plain link is left to the browser, which escapes it as the reference does.
        fragment = found[1].rstrip(bytes(range(0x21))).translate(None, b"\t\n\r")
        found = found[0], percent(fragment, b'"<>`')
    assert found == slow


@given(URLS, PLACES)
def test_what_is_resolved_stays_as_it_is(url, place):
    """A target is a path and query that a browser sends as they are, and leads to itself from anywhere."""
    found = resolve(url, place)
    if found is not None:
        target, fragment = found
        assert target[:1] == b"/"
        assert not re.search(rb"[\x00-\x20\x7f-\xff#]", target)
        assert resolve(target, PageLocation(b"http", b"else.example", b"/x/y")) == (target, b"")
        assert not fragment or fragment[:1] == b"#"
