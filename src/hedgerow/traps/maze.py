"""
Maze: decoy pages without end, for a crawler that is detained.

A page is made from the site's seed, the visitor and the target alone: asked for again it is the same page,
and nothing is kept. Its links lead only into the maze and look like the hidden links that led here. It must
cost less than a real page, so nearly all the work is done once, at the start: sentences are written, and
pages laid out with holes in them. A page is then one hash, whose bytes say what goes into the holes, and the
seals of its links.

Sentences, names and looks are drawn by the seed, so that no string tells the mazes of all sites. The text
says nothing about anybody, and search engines are told in the head to leave it alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import shake_128, shake_256
from html import escape
from importlib.resources import files
from itertools import count
from typing import NamedTuple, TypeVar

from hedgerow.markers.token import TokenCodec, content, page_digest, visitor_digest

_T = TypeVar("_T")

ROBOTS = '<meta name="robots" content="noindex, nofollow">'
_POOL = 256
"""Phrases in a pool: one byte of the hash picks one."""
_SKELETONS = 32
_TOPICS = 3
_DICE_BYTES = 160

# Where a page differs from its skeleton: a NUL and the name of what goes there. "t" is the title, the same at
# each of its places; "l" is a link's token.
_HOLE = re.compile("(\0[a-z])")
_KINDS = {
    "o": "opening",
    "m": "middle",
    "w": "middle",
    "c": "closing",
    "t": "title",
    "h": "heading",
    "n": "name",
}


class _Skeleton(NamedTuple):
    """A page with holes: its *parts*, which pool fills which hole, where the title and the tokens go."""

    parts: list[bytes]
    holes: list[tuple[int, Sequence[bytes]]]
    titles: list[int]
    titles_from: Sequence[bytes]
    tokens: list[int]


class _Layout(NamedTuple):
    """The looks of a page. In *page*, {a} to {e} are class names; *nav* and *item* wrap a {link}."""

    page: str
    nav: str
    item: str


_LAYOUTS = (
    _Layout(
        """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>\0t - {site}</title>
{robots}
{viewport}
<style>{style}</style>
</head>
<body>
<header class="{a}"><p>{site}</p>
<nav><ul>
{nav}</ul></nav></header>
<main class="{b}">
<article>
<h1>\0t</h1>
{text}</article>
<p class="{c}">{next}</p>
</main>
<aside class="{d}">
<h2>{aside}</h2>
<ul>
{items}</ul>
</aside>
<footer class="{e}"><p>{line}</p></footer>
</body>
</html>
""",
        nav="<li>{link}</li>\n",
        item="<li>{link}</li>\n",
    ),
    _Layout(
        """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{robots}<title>{site}: \0t</title>
{viewport}<style>{style}</style></head>
<body><div id="{a}"><div class="{b}"><strong>{site}</strong></div>
<div class="{c}">{nav}</div>
<div class="{d}"><h1>\0t</h1>
{text}<p>{next}</p></div>
<div class="{e}"><h3>{aside}</h3>
<ul>{items}</ul></div>
</div><p><small>{line}</small></p></body></html>""",
        nav="{link} &middot;\n",
        item="<li>{link}\n",
    ),
    _Layout(
        """<!DOCTYPE html>
<html lang="en-GB">
  <head>
    <title>\0t</title>
    <meta charset="UTF-8">
    {viewport}
    {robots}
    <style>{style}</style>
  </head>
  <body class="{a}">
    <aside class="{b}">
      <p>{site}</p>
      <ol>
{nav}      </ol>
    </aside>
    <section class="{c}">
    <h1>\0t</h1>
{text}    </section>
    <section class="{d}"><h2>{aside}</h2>
{items}    </section>
    <footer><p class="{e}">{next}</p><p>{line}</p></footer>
  </body>
</html>
""",
        nav="        <li>{link}</li>\n",
        item="      <p>{link}</p>\n",
    ),
    _Layout(
        """<!DOCTYPE html>
<html lang="en">
<head>{robots}
<meta charset="utf-8">
<title>\0t | {site}</title>
<style>{style}</style>
</head>
<body>
<h1 class="{a}">\0t</h1>
<p class="{b}">{nav}</p>
<hr>
{text}<hr>
<p class="{c}"><b>{aside}:</b>
{items}</p>
<p class="{d}">{next}</p>
<address class="{e}">{site}. {line}</address>
</body>
</html>
""",
        nav="[ {link} ]\n",
        item="{link};\n",
    ),
    _Layout(
        """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{viewport}
<title>\0t</title>
<meta name="description" content="{line}">
{robots}
<style>{style}</style>
</head>
<body>
<div class="{a}">
<main>
<h1 class="{b}">\0t</h1>
<div class="{c}">
{text}</div>
</main>
<dl class="{d}">
<dt>{aside}</dt>
{items}</dl>
<nav class="{e}">
{nav}<span>{next}</span>
</nav>
<p>{site}</p>
</div>
</body>
</html>
""",
        nav="<span>{link}</span>\n",
        item="<dd>{link}</dd>\n",
    ),
    _Layout(
        """<!DOCTYPE html>
<html lang="en"><head>
<meta charset="utf-8"><title>\0t, {site}</title>
{viewport}{robots}
<style>{style}</style></head>
<body><div class="{a} {b}">
<div role="banner" class="{c}">{site}</div>
<div role="main">
<h1>\0t</h1>
<p><em>{line}</em></p>
{text}</div>
<h2>{aside}</h2>
<ul class="{d}">
{items}</ul>
<p>{next}</p>
<ul class="{e}">
{nav}</ul>
</div></body></html>
""",
        nav="<li>{link}</li>",
        item='<li class="{d}">{link}</li>\n',
    ),
)

_VIEWPORT = '<meta name="viewport" content="width=device-width">'
_FONTS = ("serif", "sans-serif", "Georgia,serif", "Verdana,sans-serif", "system-ui", "Palatino,serif")
# How long the targets of ordinary links are, more or less.
_SHORTEST, _LONGER = 10, 36
_INKS = ("#222", "#1c2430", "#30261c", "#2b2b2b", "#1d2b1f", "#2d2233")
_PAPERS = ("#fff", "#fdfcf8", "#f7f8fa", "#fbf9f4", "#f6faf6", "#fcfcfc")


class Maze:
    """
    The decoy pages of a site. Links are *prefix* and a token, as long as other links are; *seed* makes text and looks.

    Making one takes some 30 ms and 1 MB. A page has 4 to 8 KB and costs little more than its links' seals.
    """

    def __init__(self, prefix: str, seed: bytes) -> None:
        self._salt = shake_256(b"page" + seed).digest(32)
        self._skeletons = _lay_out(_Dice(seed), prefix)

    def page(self, seal: TokenCodec, visitor: str, target: str) -> bytes:
        """The page that *visitor* finds at *target*, its links sealed by *seal*: the same bytes each time it asks."""
        issued_to = visitor_digest(visitor)
        here = page_digest(target)
        dice = shake_128(self._salt + issued_to + here).digest(_DICE_BYTES)
        skeleton = self._skeletons[dice[0] % _SKELETONS]
        parts = skeleton.parts.copy()
        title = skeleton.titles_from[dice[1]]
        for place in skeleton.titles:
            parts[place] = title
        # There are always more dice than holes: see _fill_in.
        for (place, pool), rolled in zip(skeleton.holes, dice[2:], strict=False):
            parts[place] = pool[rolled]
        token = seal.sealer(issued_to, here)
        places = skeleton.tokens
        lengths = (_SHORTEST + dice[index] % _LONGER for index in range(len(places)))
        made = [content("maze", index.to_bytes(2, "big").ljust(length, b"\0")) for index, length in enumerate(lengths)]
        for place, sealed in zip(places, token(made), strict=False):
            parts[place] = sealed
        return b"".join(parts)


class _Dice:
    """Numbers drawn from a seed: the same for the same seed, on every machine and version of Python."""

    def __init__(self, seed: bytes) -> None:
        self._numbers = self._draw(seed)

    @staticmethod
    def _draw(seed: bytes) -> Iterator[int]:
        for block in count():
            drawn = shake_256(block.to_bytes(4, "big") + seed).digest(8192)
            for at in range(0, len(drawn), 2):
                yield drawn[at] << 8 | drawn[at + 1]

    def roll(self, lowest: int, highest: int) -> int:
        return lowest + next(self._numbers) % (highest - lowest + 1)

    def pick(self, table: Sequence[_T]) -> _T:
        return table[next(self._numbers) % len(table)]

    def draw(self, table: Sequence[_T], number: int) -> list[_T]:
        """*number* different ones of *table*."""
        left = list(table)
        return [left.pop(next(self._numbers) % len(left)) for _ in range(number)]


_Words = Mapping[str, Sequence[str]]


def _read_words() -> tuple[_Words, _Words, list[_Words]]:
    """The common phrases, the patterns of sentences, and the topics, from `data/maze_words.txt`."""
    tables: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    section = ""
    for line in files("hedgerow").joinpath("data/maze_words.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, phrases = line.partition(": ")
            tables[section][name] += [phrases] if section == "sentences" else phrases.split("; ")
    common = tables.pop("common")
    sentences = tables.pop("sentences")
    return common, sentences, list(tables.values())


class _Phrases(dict[str, str]):
    """The phrases of one sentence, picked as its pattern asks for them; the same one never twice in a row."""

    def __init__(self, dice: _Dice, words: _Words) -> None:
        self._dice = dice
        self._words = words
        self._last: dict[str, int] = {}

    def __missing__(self, name: str) -> str:
        table = self._words[name]
        at = self._dice.roll(0, len(table) - 1)
        if self._last.get(name) == at:
            at = (at + 1) % len(table)
        self._last[name] = at
        return table[at]


def _write_pool(dice: _Dice, patterns: Sequence[str], words: _Words) -> list[bytes]:
    """Phrases made from *patterns*, ready for a page."""
    pool = []
    for _ in range(_POOL):
        text = dice.pick(patterns).format_map(_Phrases(dice, words))
        pool.append(escape(text[0].upper() + text[1:]).encode())
    return pool


def _lay_out(dice: _Dice, prefix: str) -> list[_Skeleton]:
    """The skeletons of a site: one layout, a few topics, many shapes."""
    common, sentences, topics = _read_words()
    # A site uses two thirds of the patterns: the turns of phrase of one are not those of all.
    kept = {kind: dice.draw(patterns, len(patterns) * 2 // 3) for kind, patterns in sentences.items()}
    names = dice.draw([a + b for a in common["begin"] for b in common["end"]], 5)
    layout = dice.pick(_LAYOUTS)
    looks = {
        **dict(zip("abcde", names, strict=True)),
        "site": f"The {dice.pick(common['mark'])} {dice.pick(common['sign'])}",
        "style": _style(dice, names),
        "robots": ROBOTS,
        "viewport": _VIEWPORT,
    }
    href = escape(prefix) + "\0l"
    pools = [
        {letter: _write_pool(dice, kept[kind], {**common, **topic}) for letter, kind in _KINDS.items()}
        for topic in dice.draw(topics, _TOPICS)
    ]
    return [
        _fill_in(_shape(dice, layout, looks, common, href), pools[number % _TOPICS]) for number in range(_SKELETONS)
    ]


def _style(dice: _Dice, names: Sequence[str]) -> str:
    ink, paper, font = dice.pick(_INKS), dice.pick(_PAPERS), dice.pick(_FONTS)
    width, size, leading = dice.roll(36, 60), dice.roll(15, 18), dice.roll(4, 7)
    body = f"margin:{dice.roll(1, 4)}em auto;max-width:{width}em;font:{size}px/1.{leading} {font}"
    rules = [f"body{{{body};color:{ink};background:{paper}}}"]
    rules += [f".{name}{{padding:.{dice.roll(1, 9)}em .{dice.roll(0, 9)}em}}" for name in names]
    return "".join(dice.draw(rules, len(rules)))


def _shape(dice: _Dice, layout: _Layout, looks: Mapping[str, str], common: _Words, href: str) -> str:
    """
    The HTML of a page, with holes.

    12 to 25 links: 4 to 6 in the navigation, 5 to 9 in the list, 2 to 9 in the text, one at the end. 6 to 12
    paragraphs, the longer the fewer, so that a page has 4 to 8 KB.
    """
    link = f'<a href="{href}">\0n</a>'
    paragraphs = dice.roll(6, 12)
    middles = 3 if paragraphs < 8 else 2 if paragraphs < 11 else 1  # noqa: PLR2004 - the longer the fewer
    linked = set(dice.draw(range(paragraphs), min(paragraphs, dice.roll(2, 9))))
    headed = set(dice.draw(range(1, paragraphs), dice.roll(2, 4)))
    text = []
    for number in range(paragraphs):
        if number in headed:
            text.append("<h2>\0h</h2>\n")
        inline = f" {dice.pick(common['lead'])} {link}." if number in linked else ""
        middle = " ".join(dice.pick(("\0m", "\0w")) for _ in range(dice.roll(middles, middles + 1)))
        text.append(f"<p>\0o {middle}{inline} \0c</p>\n")
    return layout.page.format(
        **looks,
        nav="".join(layout.nav.format(link=link, **looks) for _ in range(dice.roll(4, 6))),
        items="".join(layout.item.format(link=link, **looks) for _ in range(dice.roll(5, 9))),
        next=f'<a href="{href}">{dice.pick(common["next"])}</a>',
        text="".join(text),
        aside=dice.pick(common["aside"]),
        line=dice.pick(common["line"]),
    )


def _fill_in(shape: str, pools: Mapping[str, Sequence[bytes]]) -> _Skeleton:
    """The skeleton of a shape: which pool goes into which hole."""
    parts: list[bytes] = []
    holes: list[tuple[int, Sequence[bytes]]] = []
    places: dict[str, list[int]] = {"t": [], "l": []}
    for at, part in enumerate(_HOLE.split(shape)):
        hole = part[1:] if part.startswith("\0") else ""
        if hole in places:
            places[hole].append(at)
        elif hole:
            holes.append((at, pools[hole]))
        parts.append(b"" if hole else part.encode())
    if len(holes) > _DICE_BYTES - 2:
        raise ValueError(f"a page has {len(holes)} holes and only {_DICE_BYTES} dice")
    return _Skeleton(parts, holes, places["t"], pools["t"], places["l"])
