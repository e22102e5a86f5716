"""The maze: endless valid pages, different for each site, whose links lead only into the maze."""

from __future__ import annotations

import re
from functools import cache

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.token import SHORTEST, Key, TokenCodec, page_digest, visitor_digest
from hedgerow.traps import maze as room
from hedgerow.traps.maze import ROBOTS, Maze
from property_tests import examples

SEAL = TokenCodec([Key(1, bytes(range(64)), 0.0)])
VISITOR = "192.0.2.7"
SEEDS = [b"site %d" % number for number in range(24)]
TARGETS = [f"/~{number}" for number in range(12)]


@cache
def maze_of(number: int) -> Maze:
    return Maze("/~", SEEDS[number])


def links_of(page: bytes) -> list[str]:
    return re.findall(r'href="([^"]*)"', page.decode())


def text_of(page: bytes) -> str:
    return re.sub(r"<style>.*?</style>|<[^>]*>", " ", page.decode())


def test_the_seeds_of_these_tests_cover_every_layout():
    starts = {maze_of(number).page(SEAL, VISITOR, "/a")[:60] for number in range(len(SEEDS))}
    assert len(starts) >= len(room._layouts())


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_pages_are_valid_html_with_title_headings_paragraphs_and_links(number):
    maze = maze_of(number)
    for target in TARGETS[:3]:
        page = maze.page(SEAL, VISITOR, target)
        tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page.decode())
        title = tree.findtext("head/title")
        (h1,) = tree.iter("h1")
        assert h1.text in title
        assert len(list(tree.iter("h2"))) >= 2
        assert len([p for p in tree.iter("p") if len("".join(p.itertext())) > 150]) >= 6
        assert [m.get("content") for m in tree.iter("meta") if m.get("name") == "robots"] == ["noindex, nofollow"]
        assert "\0" not in page.decode()


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_page_size_and_number_of_links_are_bounded(number):
    maze = maze_of(number)
    pages = [maze.page(SEAL, VISITOR, target) for target in TARGETS]
    assert all(4_000 <= len(page) <= 8_192 for page in pages)
    assert all(12 <= len(links_of(page)) <= 25 for page in pages)


@given(st.text(max_size=20), st.text(max_size=40))
def test_all_links_are_sealed_for_this_visitor_and_page(visitor, target):
    links = links_of(maze_of(0).page(SEAL, visitor, target))
    for index, link in enumerate(links):
        assert link.startswith("/~")
        assert SHORTEST < len(link) - 2 < 2 * SHORTEST + 24
        marker = SEAL.unseal(link[2:])
        assert marker is not None
        assert (marker.kind, marker.target[:2].encode("latin-1")) == ("maze", index.to_bytes(2, "big"))
        assert (marker.issued_to, marker.parent) == (visitor_digest(visitor), page_digest(target))


def test_following_links_never_returns_to_a_page():
    maze, target, seen = maze_of(1), "/start", set()
    for _ in range(50):
        links = links_of(maze.page(SEAL, VISITOR, target))
        assert not seen.intersection(links)
        seen.update(links)
        target = links[-1]


@given(st.text(max_size=20), st.text(max_size=40), st.binary(max_size=20))
@examples(10, deadline=None)
def test_the_same_seed_visitor_and_target_give_the_same_page(visitor, target, seed):
    assert Maze("/~", seed).page(SEAL, visitor, target) == Maze("/~", seed).page(SEAL, visitor, target)


def test_another_visitor_target_or_seed_gives_another_text():
    page = text_of(maze_of(0).page(SEAL, VISITOR, "/a"))
    assert page != text_of(maze_of(0).page(SEAL, "192.0.2.8", "/a"))
    assert page != text_of(maze_of(0).page(SEAL, VISITOR, "/b"))
    assert page != text_of(maze_of(1).page(SEAL, VISITOR, "/a"))


def test_no_string_is_common_to_the_mazes_of_all_sites():
    pages = [maze.page(SEAL, VISITOR, "/a").decode().replace(ROBOTS, "") for maze in map(maze_of, range(len(SEEDS)))]
    # Real sites have keys of their own, and so no token in common.
    pages = [re.sub(r'href="[^"]*"', "", page) for page in pages]
    length = 24
    common = set.intersection(*({page[at : at + length] for at in range(len(page) - length)} for page in pages))
    assert not common


def test_a_prefix_is_escaped():
    assert 'href="/a&amp;&quot;' in Maze('/a&"', b"").page(SEAL, VISITOR, "/").decode()


def test_every_sentence_pattern_has_its_phrases():
    common, sentences, topics = room._read_words()
    for pattern in (pattern for patterns in sentences.values() for pattern in patterns):
        for name in re.findall(r"{(\w+)}", pattern):
            assert all(name in common or name in topic for topic in topics)
    for topic in topics:
        assert len(topic["do"]) == len(topic["did"])
        assert all(phrase == phrase.strip() != "" for phrases in topic.values() for phrase in phrases)
    # "a {quality}" must read well.
    assert not [quality for quality in common["quality"] if quality[0] in "aeio"]


def test_a_layout_with_too_many_slots_is_rejected():
    pools = dict.fromkeys(room._PHRASE_KINDS, [b""] * 256)
    with pytest.raises(ValueError, match="slots"):
        room._fill_in("\0m" * 200, pools)
