"""
The maze: endless decoy pages for a detained crawler.

A page depends only on the site's seed, the visitor and the target. The same request gives the same page, and nothing is
stored. Its links lead only into the maze and look like the hidden links that led here. A page must cost less than a
real one, so sentences and page templates are made once at start-up. A page is then one hash, whose bytes choose the
sentences, and the encrypted tokens of its links.

The seed also chooses sentences, class names and styles, so that no string identifies the mazes of all sites. The text
is about nobody, and its head tells search engines not to index it.
"""

from __future__ import annotations

import re
import tomllib
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
_POOL_SIZE = 256
"""Phrases in a pool: one byte of the hash chooses one."""
_TEMPLATES = 32
_TOPICS = 3
_DICE_BYTES = 160

# A slot of a template: a NUL and a letter. "t" is the title, the same in all of its slots. "l" is a link's token.
_SLOT = re.compile("(\0[a-z])")
_PHRASE_KINDS = {
    "o": "opening", "m": "middle", "w": "middle", "c": "closing", "t": "title", "h": "heading", "n": "name",
}  # fmt: skip


class _Template(NamedTuple):
    """A page with slots: its *parts*, and the indexes of those that phrases, the title and tokens replace."""

    parts: list[bytes]
    phrases: list[tuple[int, Sequence[bytes]]]
    titles: list[int]
    title_pool: Sequence[bytes]
    tokens: list[int]


_VIEWPORT = '<meta name="viewport" content="width=device-width">'
_FONTS = ("serif", "sans-serif", "Georgia,serif", "Verdana,sans-serif", "system-ui", "Palatino,serif")
# Ordinary links have targets of about this length.
_MIN_TARGET, _TARGET_RANGE = 10, 36
_INKS = ("#222", "#1c2430", "#30261c", "#2b2b2b", "#1d2b1f", "#2d2233")
_PAPERS = ("#fff", "#fdfcf8", "#f7f8fa", "#fbf9f4", "#f6faf6", "#fcfcfc")


class Maze:
    """
    The decoy pages of a site. A link is *prefix* and a token of ordinary length. *seed* determines text and style.

    Building one takes about 30 ms and 1 MB. A page has 4 to 8 KB and costs little more than its links' tokens.
    """

    def __init__(self, prefix: str, seed: bytes) -> None:
        self._salt = shake_256(b"page" + seed).digest(32)
        self._templates = _templates(_Dice(seed), prefix)

    def page(self, codec: TokenCodec, visitor: str, target: str) -> bytes:
        """Return the page that *visitor* finds at *target*: the same bytes every time."""
        issued_to = visitor_digest(visitor)
        here = page_digest(target)
        dice = shake_128(self._salt + issued_to + here).digest(_DICE_BYTES)
        template = self._templates[dice[0] % _TEMPLATES]
        parts = template.parts.copy()
        title = template.title_pool[dice[1]]
        for index in template.titles:
            parts[index] = title
        # There are always more dice than slots: see _fill_in.
        for (index, pool), rolled in zip(template.phrases, dice[2:], strict=False):
            parts[index] = pool[rolled]
        seal = codec.sealer(issued_to, here)
        lengths = (_MIN_TARGET + dice[number] % _TARGET_RANGE for number in range(len(template.tokens)))
        links = [content("maze", number.to_bytes(2, "big").ljust(size, b"\0")) for number, size in enumerate(lengths)]
        for index, token in zip(template.tokens, seal(links), strict=False):
            parts[index] = token
        return b"".join(parts)


class _Dice:
    """Pseudo-random numbers from a seed, the same on every machine and version of Python."""

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
        rest = list(table)
        return [rest.pop(next(self._numbers) % len(rest)) for _ in range(number)]


_Words = Mapping[str, Sequence[str]]


def _layouts() -> Sequence[Mapping[str, str]]:
    text = files("hedgerow").joinpath("data/maze_layouts.toml").read_text("utf-8")
    layouts: list[Mapping[str, str]] = tomllib.loads(text)["layout"]
    return layouts


def _read_words() -> tuple[_Words, _Words, list[_Words]]:
    """Return the common phrases, the sentence patterns and the topics of `data/maze_words.txt`."""
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
    """The phrases of one sentence, chosen on lookup; never the same one twice in a row."""

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
    pool = []
    for _ in range(_POOL_SIZE):
        text = dice.pick(patterns).format_map(_Phrases(dice, words))
        pool.append(escape(text[0].upper() + text[1:]).encode())
    return pool


def _templates(dice: _Dice, prefix: str) -> list[_Template]:
    """Return the page templates of a site: one layout, a few topics, many arrangements."""
    common, sentences, topics = _read_words()
    # A site uses two thirds of the patterns, so that no phrase is common to all sites.
    patterns_used = {kind: dice.draw(patterns, len(patterns) * 2 // 3) for kind, patterns in sentences.items()}
    names = dice.draw([a + b for a in common["begin"] for b in common["end"]], 5)
    layout = dice.pick(_layouts())
    fields = {
        **dict(zip("abcde", names, strict=True)),
        "site": f"The {dice.pick(common['mark'])} {dice.pick(common['sign'])}",
        "style": _style(dice, names),
        "robots": ROBOTS,
        "viewport": _VIEWPORT,
    }
    href = escape(prefix) + "\0l"
    pools = [
        {letter: _write_pool(dice, patterns_used[kind], {**common, **topic}) for letter, kind in _PHRASE_KINDS.items()}
        for topic in dice.draw(topics, _TOPICS)
    ]
    return [
        _fill_in(_arrange(dice, layout, fields, common, href), pools[number % _TOPICS]) for number in range(_TEMPLATES)
    ]


def _style(dice: _Dice, names: Sequence[str]) -> str:
    ink, paper, font = dice.pick(_INKS), dice.pick(_PAPERS), dice.pick(_FONTS)
    width, size, leading = dice.roll(36, 60), dice.roll(15, 18), dice.roll(4, 7)
    body = f"margin:{dice.roll(1, 4)}em auto;max-width:{width}em;font:{size}px/1.{leading} {font}"
    rules = [f"body{{{body};color:{ink};background:{paper}}}"]
    rules += [f".{name}{{padding:.{dice.roll(1, 9)}em .{dice.roll(0, 9)}em}}" for name in names]
    return "".join(dice.draw(rules, len(rules)))


def _arrange(dice: _Dice, layout: Mapping[str, str], fields: Mapping[str, str], common: _Words, href: str) -> str:
    """
    Return the HTML of a page with slots.

    It has 12 to 25 links: 4 to 6 in the navigation, 5 to 9 in the list, 2 to 9 in the text, one at the end. It has 6 to
    12 paragraphs, fewer if they are long, so that a page has 4 to 8 KB.
    """
    link = f'<a href="{href}">\0n</a>'
    paragraphs = dice.roll(6, 12)
    middles = 3 if paragraphs < 8 else 2 if paragraphs < 11 else 1  # noqa: PLR2004 - fewer if long
    linked = set(dice.draw(range(paragraphs), min(paragraphs, dice.roll(2, 9))))
    headed = set(dice.draw(range(1, paragraphs), dice.roll(2, 4)))
    text = []
    for number in range(paragraphs):
        if number in headed:
            text.append("<h2>\0h</h2>\n")
        inline = f" {dice.pick(common['lead'])} {link}." if number in linked else ""
        middle = " ".join(dice.pick(("\0m", "\0w")) for _ in range(dice.roll(middles, middles + 1)))
        text.append(f"<p>\0o {middle}{inline} \0c</p>\n")
    return layout["page"].format(
        **fields,
        title="\0t",
        nav="".join(layout["nav"].format(link=link, **fields) for _ in range(dice.roll(4, 6))),
        items="".join(layout["item"].format(link=link, **fields) for _ in range(dice.roll(5, 9))),
        next=f'<a href="{href}">{dice.pick(common["next"])}</a>',
        text="".join(text),
        aside=dice.pick(common["aside"]),
        line=dice.pick(common["line"]),
    )


def _fill_in(page: str, pools: Mapping[str, Sequence[bytes]]) -> _Template:
    parts: list[bytes] = []
    phrases: list[tuple[int, Sequence[bytes]]] = []
    indexes: dict[str, list[int]] = {"t": [], "l": []}
    for index, part in enumerate(_SLOT.split(page)):
        slot = part[1:] if part.startswith("\0") else ""
        if slot in indexes:
            indexes[slot].append(index)
        elif slot:
            phrases.append((index, pools[slot]))
        parts.append(b"" if slot else part.encode())
    if len(phrases) > _DICE_BYTES - 2:
        raise ValueError(f"a page has {len(phrases)} slots and only {_DICE_BYTES} dice")
    return _Template(parts, phrases, indexes["t"], pools["t"], indexes["l"])
