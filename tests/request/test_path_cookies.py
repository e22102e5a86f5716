"""Cookies with a path under opaque addresses, with a browser's cookie store as RFC 6265 describes it."""

from __future__ import annotations

from http.cookiejar import http2time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.request.path_cookies import COPY, default_path, is_within, restored_cookies, spread_cookie

NOW = 1_800_000_000.0
PAST = b"Thu, 01 Jan 1970 00:00:00 GMT"


class Browser:
    """Stores cookies by name and path, and sends those of a path, the longest path first."""

    def __init__(self) -> None:
        self.cookies: dict[tuple[bytes, bytes], tuple[bytes, bool]] = {}

    def take(self, header: bytes, path: bytes) -> None:
        pair, *attributes = [part.strip() for part in header.split(b";")]
        name, _, value = pair.partition(b"=")
        said = {key.strip().lower(): word.strip() for key, _, word in (part.partition(b"=") for part in attributes)}
        where = said.get(b"path", b"")
        where = where if where.startswith(b"/") else default_path(path)
        ends = http2time(said[b"expires"].decode()) if b"expires" in said else None
        if said.get(b"max-age") == b"0" or (ends is not None and ends < NOW):
            self.cookies.pop((name, where), None)
        else:
            self.cookies[name, where] = (value, b"httponly" in said)

    def sends(self, path: bytes) -> bytes:
        found = [(where, name, value) for (name, where), (value, _) in self.cookies.items() if is_within(path, where)]
        return b"; ".join(b"%b=%b" % (n, v) for _, n, v in sorted(found, key=lambda one: -len(one[0])))

    def scripts_see(self, path: bytes) -> set[bytes]:
        own = {n: h for (n, where), (_, h) in self.cookies.items() if is_within(path, where)}
        return {name for name, http_only in own.items() if not http_only}


class Visitor:
    """A browser behind Hedgerow with opaque addresses, and the same one without Hedgerow."""

    def __init__(self) -> None:
        self.behind, self.direct = Browser(), Browser()

    def seen(self, path: bytes, *, hidden: bool = True) -> bytes:
        """The Cookie header that the site gets."""
        return restored_cookies(self.behind.sends(b"/~token" if hidden else path), path, hidden=hidden)

    def gets(self, header: bytes, path: bytes, *, hidden: bool = True) -> None:
        shown = b"/~token" if hidden else path
        for one in spread_cookie(header, path, self.behind.sends(shown), NOW, hidden=hidden):
            self.behind.take(one, shown)
        self.direct.take(header, path)

    def check(self, *paths: bytes) -> None:
        for path in paths:
            for hidden in (True, False):
                assert self.seen(path, hidden=hidden) == self.direct.sends(path), (path, hidden)


PATHS = (b"/", b"/wiki/a", b"/wiki/", b"/shop/b", b"/shop/b/c", b"/wikis", b"/other")


@pytest.mark.parametrize("more", [b"", b"; HttpOnly", b"; Secure; SameSite=Lax"])
def test_two_cookies_with_one_name_on_two_paths_stay_apart(more):
    visitor = Visitor()
    visitor.gets(b"sid=ann; Path=/wiki/" + more, b"/wiki/login")
    visitor.gets(b"sid=bob; Path=/shop" + more, b"/shop/login")
    visitor.check(*PATHS)
    visitor.gets(b"sid=root; Path=/; HttpOnly", b"/")
    visitor.check(*PATHS)
    visitor.gets(b"sid=; Path=/shop; Max-Age=0", b"/shop/logout")
    visitor.check(*PATHS)
    assert visitor.seen(b"/wiki/a") == b"sid=ann; sid=root"


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("end", [b"Max-Age=0", b"Expires=" + PAST])
def test_logging_out_logs_out(hidden, end):
    visitor = Visitor()
    # From before Hedgerow.
    for browser in (visitor.behind, visitor.direct):
        browser.take(b"sid=old; Path=/wiki/; HttpOnly", b"/wiki/login")
    visitor.gets(b"sid=new; Path=/wiki/; HttpOnly", b"/wiki/login", hidden=hidden)
    visitor.check(*PATHS)
    # A framework deletes a cookie without saying that it was HttpOnly.
    visitor.gets(b"sid=; Path=/wiki/; " + end, b"/wiki/logout", hidden=hidden)
    assert visitor.behind.cookies == visitor.direct.cookies == {}


def test_a_cookie_that_was_widened_by_an_earlier_version_is_deleted():
    visitor = Visitor()
    visitor.behind.take(b"sid=old; Path=/", b"/~token")
    assert visitor.seen(b"/wiki/a") == b"sid=old"
    visitor.gets(b"sid=; Path=/wiki/; Max-Age=0", b"/wiki/logout")
    assert visitor.behind.cookies == {}


def test_a_cookie_without_a_path_belongs_to_the_folder_of_the_page():
    visitor = Visitor()
    visitor.gets(b"sid=1; HttpOnly", b"/wiki/login")
    visitor.check(b"/", b"/wiki/a", b"/shop")
    assert (b"sid", b"/wiki") in visitor.behind.cookies


def test_scripts_on_opaque_pages_see_what_they_may():
    visitor = Visitor()
    visitor.gets(b"token=1; Path=/app/", b"/app/")
    visitor.gets(b"sid=1; Path=/app/; HttpOnly", b"/app/")
    assert b"token" in visitor.behind.scripts_see(b"/~token")
    assert b"sid" not in visitor.behind.scripts_see(b"/~token")
    visitor.check(*PATHS, b"/app/x")
    visitor.gets(b"token=; Path=/app/; Max-Age=0", b"/app/end", hidden=False)
    assert {name for name, _ in visitor.behind.cookies if b"token" in name} == set()


def test_a_cookie_of_the_whole_site_is_never_overwritten():
    visitor = Visitor()
    visitor.gets(b"theme=dark; Path=/", b"/")
    visitor.gets(b"theme=light; Path=/wiki/", b"/wiki/")
    visitor.check(*PATHS)
    visitor.gets(b"theme=; Path=/wiki/; Max-Age=0", b"/wiki/")
    visitor.check(*PATHS)
    assert visitor.behind.cookies == visitor.direct.cookies


@pytest.mark.parametrize(
    "header",
    [
        b"a=1; Path=/", b"a=1; Path=/; Path=/", b"__Host-a=1; Path=/; Secure", b"no pair", b"", b"=1; Path=/x",
        b"a=1; Path=/" + b"x" * 400,
    ],
)  # fmt: skip
def test_other_cookies_are_as_they_were(header):
    assert spread_cookie(header, b"/", b"", NOW, hidden=True) == [header]


def test_every_attribute_is_in_every_copy():
    header = b"a=x=y; domain=example.org; path=/p; Expires=Thu, 01 Jan 2099 00:00:00 GMT;Secure; SameSite=None"
    own, copy, scripts = spread_cookie(header, b"/q", b"", NOW, hidden=True)
    rest = b"; domain=example.org; Expires=Thu, 01 Jan 2099 00:00:00 GMT;Secure; SameSite=None"
    assert own == b"a=x=y; Path=/p" + rest
    assert copy == COPY + b"L3A.a=sx=y; Path=/" + rest
    assert scripts == b"a=x=y; Path=/" + rest


FORGED = (b"", b".", b"!.a=h1", b"L3A", b"L3A.a=1", b"L3A.=h1", b"\xff.b=h1")


@pytest.mark.parametrize("cookies", [COPY + rest for rest in FORGED])
def test_a_forged_copy_is_ignored(cookies):
    assert COPY not in restored_cookies(cookies, b"/p", hidden=True)


_NAMES = st.sampled_from([b"sid", b"theme", b"x"])
_FOLDERS = st.sampled_from([b"/", b"/wiki", b"/wiki/", b"/shop/", b"/shop/b"])
_STEPS = st.tuples(_NAMES, _FOLDERS, st.sampled_from([b"1", b"2", b"3"]), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(_STEPS, max_size=12))
def test_the_site_gets_the_cookies_that_it_would_get_without_opaque_addresses(steps):
    """
    Whatever is set and deleted, if the site deletes only what it has set.

    This holds for HttpOnly cookies. Those that scripts see are a compromise.
    """
    visitor = Visitor()
    for name, folder, value, is_deleted, hidden, in_folder in steps:
        header = b"%b=%b; HttpOnly" % (name, b"" if is_deleted else value) + (b"; Max-Age=0" if is_deleted else b"")
        path = folder.rstrip(b"/") + b"/page"
        if is_deleted and (name, folder if in_folder else default_path(path)) not in visitor.direct.cookies:
            continue
        visitor.gets(header + (b"; Path=" + folder if in_folder else b""), path, hidden=hidden)
    for path in PATHS:
        got, wanted = visitor.seen(path).split(b"; "), visitor.direct.sends(path).split(b"; ")
        assert sorted(got) == sorted(wanted)
        assert restored_cookies(visitor.behind.sends(path), path, hidden=False) == visitor.direct.sends(path)
