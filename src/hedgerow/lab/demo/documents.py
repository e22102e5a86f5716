"""A folder of pages, for the demo: installed documentation, or a site that is made up."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

_DOCUMENTS = Path("/usr/share/doc")
_FEWEST_PAGES = 200
_MOST_PAGES = 3000
_MADE_PAGES = 400


def find_documents(folder: Path) -> tuple[str, Path]:
    """What to serve, and its name. A site that is made up goes into *folder*."""
    return _installed() or ("A made-up site", _made_up(folder))


def _installed() -> tuple[str, Path] | None:
    """PostgreSQL's documentation, or else the largest HTML documentation that is installed."""
    for root in sorted(_DOCUMENTS.glob("postgresql-doc-*/html"), reverse=True):
        if (root / "index.html").is_file():
            return "PostgreSQL's documentation", root
    found = []
    for index in itertools.chain(_DOCUMENTS.glob("*/html/index.html"), _DOCUMENTS.glob("*/index.html")):
        pages = sum(1 for _ in itertools.islice(index.parent.rglob("*.html"), _MOST_PAGES))
        if pages >= _FEWEST_PAGES:
            found.append((pages, index.parent))
    if not found:
        return None
    root = max(found)[1]
    return f"The documentation in {root}", root


def _made_up(root: Path) -> Path:
    """A site of some hundred pages, each with links to its neighbours and to pages far away."""
    root.mkdir()
    dice = random.Random(1)  # noqa: S311 - a site, not a secret
    for n in range(_MADE_PAGES):
        near = {*range(2 * n + 1, 2 * n + 3), (n - 1) // 2, *(dice.randrange(_MADE_PAGES) for _ in range(8))}
        links = "\n".join(f'<li><a href="{m}.html">Page {m}</a></li>' for m in sorted(near) if 0 <= m < _MADE_PAGES)
        text = (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Page {n}</title></head>\n'
            f"<body><h1>Page {n}</h1>\n<p>This is page {n} of {_MADE_PAGES}.</p>\n<ul>\n{links}\n</ul></body></html>\n"
        )
        (root / f"{n}.html").write_text(text)
    shutil.copy(root / "0.html", root / "index.html")
    return root
