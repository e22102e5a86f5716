"""
Sweep: very many sources with one user agent, each of which asks for the same page once and for nothing else.

A worm or a botnet that looks for web servers sends one request to each host: the home page. A single one of its
sources cannot be told from a person who comes and goes. All of them together can, on a host that hardly anybody else
visits: nine of ten people never use the same version of one browser, and of many people some go on to another page,
load an image or come back. In an office where everybody has the same browser, everybody is in the same network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.source_labels import NOTHING
from hedgerow.report.tables.line_parser import OTHER_CLIENT
from hedgerow.report.tables.source_tables import Tables

LEAST_SOURCES = 100
SHARE_OF_VISITORS = 0.9
"""The share of all visitors that have the user agent."""

ALIKE = 0.99
"""The share of the sources with this user agent that ask for nothing but the same page."""

ON_ONE_DAY = 0.9
IN_ONE_NETWORK = 0.1
"""The largest share of them in one IPv4 /16."""

_WIDE = np.uint64(16)


def find_sweep(tables: Tables, declared: NDArray[np.int8]) -> NDArray[np.bool_]:
    """
    Return which sources are part of a sweep. *declared* is what each source declares.

    A source that comes back on another day is not called a part of it, since people have start pages.
    """
    figures = tables.figures
    found = np.zeros(len(figures.sources), np.bool_)
    agent, requests = figures["agent"], figures["requests"]
    visitors = (figures["pages"] > 0) & (declared == NOTHING) & (agent != 0)
    if np.count_nonzero(visitors) < LEAST_SOURCES:
        return found
    mine = visitors & (agent == np.argmax(np.bincount(agent[visitors])))
    one_page = mine & (figures["pages"] == requests) & (figures["unreferred"] == requests) & (figures["different"] == 1)
    # Other addresses than IPv4, and accounts, have no network here.
    one_page &= (figures.sources < OTHER_CLIENT) & (figures["heads"] == 0)
    count, total = np.count_nonzero(one_page), np.count_nonzero(mine)
    if total < max(LEAST_SOURCES, SHARE_OF_VISITORS * np.count_nonzero(visitors)) or count < ALIKE * total:
        return found
    networks = np.unique(figures.sources[one_page] >> _WIDE, return_counts=True)[1]
    on_one_day = figures["days"] == 1
    if networks.max() > IN_ONE_NETWORK * count or np.mean(on_one_day[one_page]) < ON_ONE_DAY:
        return found
    first = tables.store.first_pages(figures.sources[one_page], 1)
    pages, which, often = np.unique(first["page"], return_inverse=True, return_counts=True)
    same = tables.places(first["source"])[which == np.argmax(often)]
    if len(pages) and len(same) >= ALIKE * total:
        found[same] = on_one_day[same]
    return found
