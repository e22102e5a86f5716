"""
Telling: sources as lines of JSON, some thousands at once: column by column, and what many have in common once.

Each line is told in two halves: between them belongs the campaign (`campaign`), which may still be sought meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.logs.formats import readable
from hedgerow.report.declared_bots import DeclaredBots
from hedgerow.report.evidence_columns import rounded
from hedgerow.report.source_labels import LABELS, SourceLabels
from hedgerow.report.tables.source_tables import Tables

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


def _all_shown(names: list[str]) -> list[str]:
    """The same of many, which mostly can all be read as they are."""
    together = "".join(names)
    return names if together.isascii() and together.isprintable() else [shown(name) for name in names]


def campaign(name: str | None) -> str:
    """What stands between the halves of a line: the campaign that its source is in, or that it is in none."""
    return f'"campaign":{dump(name)}'


def halves(
    some: NDArray[np.int64], tables: Tables, judgements: SourceLabels, declared: DeclaredBots | None
) -> tuple[list[str], list[str]]:
    """The first and the second halves of a line for each of the sources at the places *some*, in which no line ends."""
    figures = tables.figures
    names = [tables.sources[place] for place in some.tolist()]
    before = zip(
        _dumped(_all_shown(names)),
        _dumped(figures["requests"][some].tolist()),
        [LABELS[label] for label in judgements.label[some].tolist()],
        _dumped(rounded(judgements.score[some], 4).tolist()),
        _evidence(some, judgements),
        strict=True,
    )
    behind = zip(
        _dumped(_isos(figures.first[some])),
        _dumped(_isos(figures.last[some])),
        _dumped(figures["pages"][some].tolist()),
        _more(some, names, tables, declared),
        strict=True,
    )
    return [
        f'{{"source":{name},"requests":{requests},"label":"{label}","score":{score},"evidence":[{evidence}],'
        for name, requests, label, score, evidence in before
    ], [f',"first":{first},"last":{last},"pages":{pages}{more}}}' for first, last, pages, more in behind]


def _dumped(column: Sequence[Any]) -> list[str]:
    """Each as JSON, in which no line ends."""
    return _ENCODER.encode_lines(column).decode("utf-8").split("\n")[:-1]


def _evidence(some: NDArray[np.int64], judgements: SourceLabels) -> list[str]:
    """What speaks about each, one piece behind the other."""
    whom, kind, weight, text = judgements.findings(some)
    begins = [f'{{"detector":{dump(detector)},"code":{dump(code)},"weight":' for detector, code in judgements.kinds]
    sentences = list(set(text))
    said = dict(zip(sentences, _dumped(sentences), strict=True))
    columns = zip(kind.tolist(), _dumped(weight.tolist()), text, strict=True)
    pieces = [f'{begins[kind]}{weight},"text":{said[text]}}}' for kind, weight, text in columns]
    bounds = np.searchsorted(whom, np.arange(len(some) + 1)).tolist()
    return [",".join(pieces[begin:end]) for begin, end in pairwise(bounds)]


def _more(some: NDArray[np.int64], names: list[str], tables: Tables, declared: DeclaredBots | None) -> Iterable[str]:
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
