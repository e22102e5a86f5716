"""
A dynamic site: a wiki of 1,200 articles, of which each view takes 50 to 100 ms, four at a time.

`python -m bench.arena.wiki PORT LOG` serves it. The log has the format of the static site's.
"""

from __future__ import annotations

import asyncio
import random
import sys
from html import escape
from pathlib import Path
from typing import Any

ARTICLES = 1_200
CATEGORIES = 40
_AT_ONCE = 4
_SECONDS = (0.05, 0.1)
_FIRST, _SECOND, _LAST = (
    words.split()
    for words in (
        "amber beech bramble cedar clover dusty early fallow green hazel ivy juniper late marsh north old",
        "ash bank bird brook copse ditch elder fern gate hedge hill lane meadow nest oak pond ridge rook thorn",
        "book craft fair field folk law lore map path rule song stone tale trade year",
    )
)
_WORDS = [*_FIRST, *_SECOND, *_LAST, "and", "the", "of", "in", "which", "was", "with", "from"]
_STYLE = b"body{font:16px/1.5 serif;max-width:50em;margin:1em auto}nav a{margin-right:1em}"


def _names() -> list[str]:
    dice = random.Random(17)
    every = [f"{a.title()}_{b}_{c}" for a in _FIRST for b in _SECOND for c in _LAST]
    return dice.sample(every, ARTICLES)


NAMES = _names()
PATHS = ("/", *(f"/wiki/{name}" for name in NAMES), *(f"/category/{n}" for n in range(CATEGORIES)))


def page(path: str) -> bytes | None:
    """The page of *path*; None where there is none."""
    if path == "/":
        links = [f"/category/{n}" for n in range(CATEGORIES)] + [f"/wiki/{name}" for name in NAMES[:25]]
        return _written("Hedge wiki", links, random.Random(1))
    kind, _, name = path.removeprefix("/").partition("/")
    if kind == "category" and name.isdigit() and int(name) < CATEGORIES:
        return _written(
            f"Category {name}", [f"/wiki/{one}" for one in NAMES[int(name) :: CATEGORIES]], random.Random(1)
        )
    if kind == "wiki" and path in _KNOWN:
        dice = random.Random(name)
        number = NAMES.index(name)
        near = [f"/wiki/{NAMES[(number + dice.randrange(1, 40)) % ARTICLES]}" for _ in range(5)]
        far = [f"/wiki/{NAMES[min(dice.randrange(ARTICLES), dice.randrange(ARTICLES))]}" for _ in range(9)]
        return _written(name.replace("_", " "), [*near, *far, f"/category/{number % CATEGORIES}"], dice)
    return None


_KNOWN = frozenset(PATHS)


def _written(title: str, links: list[str], dice: random.Random) -> bytes:
    parts = []
    for link in links:
        name = escape(link.rpartition("/")[2].replace("_", " "))
        text = " ".join(dice.choices(_WORDS, k=30))
        parts.append(f'<p>{text} <a href="{link}">{name}</a> {text}.</p>')
    menu = '<nav><a href="/">Main page</a><a href="/category/0">Categories</a></nav>'
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><link rel="stylesheet" href="/style.css">'
    head += '<link rel="icon" href="data:,">'
    body = f"{menu}<main><h1>{escape(title)}</h1>{''.join(parts)}</main>"
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{body}</body></html>'.encode()


class Wiki:
    """The ASGI application. Its *log* gets a line per request: forwarded address, address, status, target."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("a", encoding="utf-8", buffering=1)
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def __call__(self, scope: dict[str, Any], _: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path, kind = scope["path"], b"text/html; charset=utf-8"
        body = page(path)
        status = 200 if body is not None else 404
        if path == "/style.css":
            status, body, kind = 200, _STYLE, b"text/css"
        elif body is not None:
            async with self._at_once:
                await asyncio.sleep(random.uniform(*_SECONDS))
        forwarded = dict(scope["headers"]).get(b"x-forwarded-for", b"-").decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        self._log.write(f"{forwarded}\t{scope['client'][0]}\t{status}\t{path}{'?' * bool(query)}{query}\n")
        body = body if body is not None else b"<h1>No such page</h1>"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(Wiki(Path(sys.argv[2])), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off")
