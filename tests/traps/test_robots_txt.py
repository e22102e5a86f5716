"""robots.txt: the prefix is disallowed for all crawlers, and nothing else changes."""

from __future__ import annotations

import re
from itertools import chain
from urllib.robotparser import RobotFileParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protego import Protego

from hedgerow.traps.robots_txt import LIMIT, disallow, refuse

AGENTS = ["a", "b", "goodbot", "*", "A", "a*", "Mozilla/5.0 (compatible; goodbot/2.1)"]
SITE = "https://example.org"
PREFIXES = ["/~", "/.well/x-", "/en/"]
values = st.one_of(
    st.sampled_from(
        [
            "",
            "/",
            "/*",
            "*",
            "/~",
            "/~x",
            "/~/",
            "/%7Ex",
            "/~ü",
            "/*x$",
            "/~$",
            "/$",
            "/en/",
            "/en/*/y",
            "/.well/x-*",
        ]
    ),
    st.text("/~*$%7Eenxü ", max_size=8),
)
fields = st.sampled_from(
    [
        "User-agent",
        "user-AGENT ",
        "Useragent",
        "User agent",
        "Allow",
        "Disallow",
        "Dissallow",
        "Sitemap",
        "Crawl-delay",
        "X",
    ]
)
lines = st.one_of(
    st.builds("User-agent: {}".format, st.sampled_from(AGENTS)),
    st.builds("Allow: {}".format, values),
    st.builds("Disallow: {}".format, values),
    st.builds(
        "{}{}{}".format,
        fields,
        st.sampled_from([":", ": ", " ", " : "]),
        st.one_of(values, st.sampled_from(AGENTS)),
    ),
    st.sampled_from(["", "# a comment", "User-agent:", "User-agent: a # the first", "no field", "Allow: /~a # b"]),
    st.text("abu:/~# \t", max_size=10),
)
robots_txts = st.builds(
    lambda bom, rows, end, last: bom + end.join(rows).encode() + last.encode(),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(lines, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\n", "\r\n"]),
)
rests = st.text("abexn/~.$?ü", max_size=6)


class Strict:
    """RFC 9309 to the letter, as its authors' own parser reads it: nothing but what it defines."""

    def __init__(self, robots: str) -> None:
        self.groups: list[tuple[set[str], list[tuple[bool, str]]]] = []
        open_ = False
        for line in re.split(r"\r\n|\r|\n", robots):
            name, colon, value = (part.strip() for part in line.partition("#")[0].partition(":"))
            if colon and name.lower() == "user-agent":
                if not open_:
                    self.groups.append((set(), []))
                open_ = True
                self.groups[-1][0].add(value.lower())
            elif colon and name.lower() in {"allow", "disallow"} and self.groups:
                open_ = False
                self.groups[-1][1].append((name.lower() == "allow", value))

    def can_fetch(self, path: str, agent: str) -> bool:
        named = [rules for agents, rules in self.groups if agent.lower() in agents]
        rules = chain.from_iterable(named or [rules for agents, rules in self.groups if "*" in agents])
        found = [(len(rule), allow) for allow, rule in rules if rule and self.matches(rule, path)]
        return max(found, default=(0, True))[1]

    @staticmethod
    def matches(rule: str, path: str) -> bool:
        pattern = ".*".join(map(re.escape, rule.removesuffix("$").split("*")))
        return re.match(pattern + ("$" if rule.endswith("$") else ""), path) is not None


def text_of(robots: bytes) -> str:
    return robots.decode("utf-8-sig")


@given(robots_txts, st.sampled_from(PREFIXES), st.sampled_from([*AGENTS, "nobody"]), st.lists(rests, max_size=5))
@example(b"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nAllow: /~x", "/~", "a", ["x"])
@example(b"User-agent: a\nallow /~xxxx\nUser-agent: b\nAllow:\nUser-agent: a\nAllow:", "/~", "a", ["xxxx"])
@example(b"User-agent: a\nuser-agent b: c\nUser-agent: b\nAllow:", "/~", "a", ["x"])
def test_the_prefix_is_disallowed_and_nothing_else_changes(robots, prefix, agent, rests):
    before, after = Protego.parse(text_of(robots)), Protego.parse(text_of(disallow(robots, prefix)))
    for rest in ["", "9sX_-", *rests]:
        assert not after.can_fetch(SITE + prefix + rest, agent)
        path = "/" + rest
        if not path.startswith(prefix):
            assert after.can_fetch(SITE + path, agent) == before.can_fetch(SITE + path, agent)


@given(robots_txts, st.sampled_from(PREFIXES), st.sampled_from([*AGENTS, "nobody"]), st.lists(rests, max_size=5))
@example(b"User-agent: *\nDisallow: /\nUser-agent goodbot\nUser-agent: a", "/~", "goodbot", [])
def test_a_strict_parser_sees_only_the_prefix_disallowed(robots, prefix, agent, rests):
    before, after = Strict(text_of(robots)), Strict(text_of(disallow(robots, prefix)))
    for rest in ["", "9sX_-", *rests]:
        assert not after.can_fetch(prefix + rest, agent)
        path = "/" + rest
        if not path.startswith(prefix):
            assert after.can_fetch(path, agent) == before.can_fetch(path, agent)


@given(robots_txts | st.binary(max_size=200), st.sampled_from(PREFIXES))
def test_applying_disallow_twice_changes_nothing(robots, prefix):
    once = disallow(robots, prefix)
    assert disallow(once, prefix) == once


@given(robots_txts | st.binary(max_size=200), st.sampled_from(PREFIXES))
def test_every_byte_of_the_site_stays_in_order(robots, prefix):
    kept = iter(disallow(robots, prefix))
    assert all(byte in kept for byte in robots)


def test_a_group_of_several_agents_gets_the_rule_once_behind_the_last():
    robots = b"Sitemap: /s.xml\nUser-agent: a\n\n# and\nUser-agent: b # two\nDisallow: /x\n\nUser-agent: *\nDisallow:\n"
    assert disallow(robots, "/~") == (
        b"Sitemap: /s.xml\nUser-agent: a\n\n# and\nUser-agent: b # two\nDisallow: /~\nDisallow: /x\n\n"
        b"User-agent: *\nDisallow: /~\nDisallow:\n"
    )


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_added_lines_end_as_the_sites_do(end):
    robots = b"\xef\xbb\xbfUser-agent: a" + end + b"Allow: /" + end + b"User-agent: b"
    expected = [
        b"\xef\xbb\xbfUser-agent: a", b"Disallow: /~", b"Allow: /", b"User-agent: b", b"Disallow: /~", b"",
        b"User-agent: *", b"Disallow: /~", b"",
    ]  # fmt: skip
    assert disallow(robots, "/~") == end.join(expected)


def test_a_longer_rule_outweighs_an_allow_of_the_site():
    assert disallow(b"User-agent: *\nAllow: /~ann/\n", "/~") == (
        b"User-agent: *\nDisallow: /~\nDisallow: /~*****\nAllow: /~ann/\n"
    )
    assert disallow(b"User-agent: *\nAllow: /*\n", "/~") == (b"User-agent: *\nDisallow: /~\nDisallow: /~*\nAllow: /*\n")
    assert b"*\nAllow" not in disallow(b"User-agent: *\nAllow: /\nAllow: /annual\n", "/~")


def test_the_rule_comes_first_for_parsers_that_use_the_first_match():
    parser = RobotFileParser()
    parser.parse(disallow(b"User-agent: a\nAllow: /\n\nUser-agent: *\nAllow: /\n", "/~").decode().splitlines())
    assert not parser.can_fetch("a", "/~token")
    assert not parser.can_fetch("b", "/~token")
    assert parser.can_fetch("a", "/page")


def test_agents_that_some_parsers_see_without_rules_are_named_again():
    robots = b"User-agent: a\nCrawl-delay: 5\nUser-agent: b\nDisallow: /x\n"
    assert disallow(robots, "/~") == (
        b"User-agent: a\nCrawl-delay: 5\nUser-agent: b\nDisallow: /~\nDisallow: /x\n\n"
        b"User-agent: *\nUser-agent: a\nDisallow: /~\n"
    )


def test_a_site_without_robots_txt_gets_one():
    assert disallow(b"", "/~") == b"User-agent: *\nDisallow: /~\n"


def test_a_long_file_is_cut_at_the_end_of_a_line():
    rows = b"User-agent: *\n" + b"Disallow: /0123456789\n" * 30_000
    cut = disallow(rows, "/~")
    assert LIMIT - 100 < len(cut) < LIMIT + 100
    assert cut.endswith(b"/0123456789\n")
    assert disallow(b"x" * (LIMIT + 1), "/~") == disallow(b"", "/~")


# ---- Bots that are not wanted


@given(robots_txts, st.lists(rests, max_size=5))
@example(b"User-agent: goodbot\nUser-agent: a\nAllow: /", ["x"])
@example(b"User-agent: goodbot\nAllow: /\n", ["x"])
def test_refused_agents_may_fetch_nothing_and_others_are_unaffected(robots, rests):
    before = Protego.parse(text_of(robots))
    after = Protego.parse(text_of(refuse(robots, ["goodbot", "Other"])))
    for target in ("/", *("/" + rest for rest in rests)):
        for agent in ("goodbot", "Other"):
            assert not after.can_fetch(SITE + target, agent)
        for agent in ("a", "b"):
            assert after.can_fetch(SITE + target, agent) == before.can_fetch(SITE + target, agent)


def test_disallow_and_refuse_can_be_combined():
    told = disallow(refuse(b"", ["GPTBot"]), "/~")
    assert told == b"User-agent: GPTBot\nDisallow: /~\nDisallow: /\n\nUser-agent: *\nDisallow: /~\n"
    assert refuse(b"Sitemap: /s", ["a"]) == b"Sitemap: /s\n\nUser-agent: a\nDisallow: /\n"
