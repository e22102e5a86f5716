"""
Telling: sources as lines of JSON, some thousands at once: column by column, and what many have in common once.

Each line is told in two halves: between them belongs the campaign (`campaign`), which may still be sought meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.analyse.tables import Tables
from hedgerow.logs.formats import readable
from hedgerow.report.declared import Declared
from hedgerow.report.judging import LABELS, Judgements
from hedgerow.verdict import Evidence

NAMED = ("account", "session")
"""What sources may be that have a name of their own, and no address in it."""

_FIRST, _BEYOND = (int(np.datetime64(f"{year}-01-01", "us").astype(np.int64)) for year in ("0001", "10000"))
_ENCODER = msgspec.json.Encoder()
_readable = lru_cache(maxsize=1 << 14)(readable)
"""For texts that come again and again."""


def dump(data: Any) -> str:
    """JSON, as short as it can be."""
    return _ENCODER.encode(data).decode("utf-8")


def shown(name: str) -> str:
    """The name of a source, whatever is in it, as it can be read."""
    return name if name.isascii() and name.isprintable() else readable(name)


def campaign(name: str | None) -> str:
    """What stands between the halves of a line: the campaign that its source is in, or that it is in none."""
    return f'"campaign":{dump(name)}'


def halves(
    some: NDArray[np.int64], tables: Tables, judgements: Judgements, declared: Declared | None
) -> Iterator[tuple[str, str]]:
    """The two halves of a line for each of the sources at the places *some*, in which no line ends."""
    figures, places = tables.figures, some.tolist()
    names = [tables.sources[place] for place in places]
    columns = zip(
        _dumped([shown(name) for name in names]),
        _dumped(figures["requests"][some].tolist()),
        [LABELS[label] for label in judgements.label[some].tolist()],
        _dumped([round(score, 4) for score in judgements.score[some].tolist()]),
        (
            _evidence(judgements.evidence(k)) if bits else "[]"
            for k, bits in zip(places, judgements.spoken[some].tolist(), strict=True)
        ),
        _dumped(_isos(figures.first[some])),
        _dumped(_isos(figures.last[some])),
        _dumped(figures["pages"][some].tolist()),
        _more(some, names, tables, declared),
        strict=True,
    )
    for name, requests, label, score, evidence, first, last, pages, more in columns:
        yield (
            f'{{"source":{name},"requests":{requests},"label":"{label}","score":{score},"evidence":{evidence},',
            f',"first":{first},"last":{last},"pages":{pages}{more}}}',
        )


def _dumped(column: list[Any]) -> list[str]:
    """Each as JSON, in which no line ends."""
    return _ENCODER.encode_lines(column).decode("utf-8").split("\n")[:-1]


def _evidence(found: list[Evidence]) -> str:
    return dump([{"detector": e.detector, "code": e.code, "weight": e.weight, "text": e.text} for e in found])


def _more(some: NDArray[np.int64], names: list[str], tables: Tables, declared: Declared | None) -> Iterable[str]:
    """What not every source has: an address beside its name, a user agent, the bot that it says it is."""
    places = some.tolist()
    found = [""] * len(places)
    if declared is not None:
        found = list(map(_says, declared.agents_of(some), map(declared.bot, places)))
    if tables.by in NAMED:
        own = [tables.addresses[place] for place in places]
        return map(_beside_its_name, names, own, found)
    return found


def _beside_its_name(name: str, address: str, more: str) -> str:
    return f',"address":{dump(address)}{more}' if address not in {"", name} else more


@lru_cache(maxsize=1 << 14)
def _says(agent: str, bot: str) -> str:
    told = f',"user_agent":{dump(_readable(agent))}' if agent else ""
    return f'{told},"bot":{dump(bot)}' if bot else told


def _isos(times: NDArray[np.int64]) -> list[str | None]:
    """What `iso` says of each of *times*, which are microseconds."""
    told = np.datetime_as_string((times // 1000).astype("datetime64[ms]"), timezone="UTC").tolist()
    # Before and after these a year has not four digits, and none of ours.
    if len(times) and times.min() >= _FIRST and times.max() < _BEYOND:
        return list(told)
    return [text if _FIRST <= at < _BEYOND else None for text, at in zip(told, times.tolist(), strict=True)]
