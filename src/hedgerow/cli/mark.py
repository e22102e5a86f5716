"""
`hedgerow mark DIR`: mark the links of a folder of HTML for publication, PathMarker's pre-processing script.

The links name their page and their target and nobody in particular, so that any server can hand the files out; a
Hedgerow in front of it opens them. Every other file is copied as it is.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from hedgerow.cli.options import Config, default_config
from hedgerow.errors import HedgerowError
from hedgerow.markers.html.charset import carried_charset
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.token import NOBODY, TokenCodec, page_digest
from hedgerow.settings import Settings, load_settings
from hedgerow.web.gate import build_rules
from hedgerow.web.stores import build_token_codecs

_PAGES = frozenset({".html", ".htm", ".xhtml"})
_INDEX = frozenset({"index.html", "index.htm"})


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of HTML files.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the marked copy goes.")],
    host: Annotated[str, typer.Option(metavar="NAME", help="The host name under which it will be published.")],
    base: Annotated[str, typer.Option(metavar="PATH", help="The path under which it will be published.")] = "/",
    config: Config = None,
) -> None:
    """Mark the links of a folder of HTML for publication: page markers, for no visitor in particular."""
    if not folder.is_dir():
        raise HedgerowError(f"{folder} is not a folder")
    if output.exists():
        raise HedgerowError(f"{output} is there already; name a folder that is not")
    if not base.startswith("/") or not base.endswith("/"):
        raise HedgerowError(f"--base {base} must start and end with /")
    settings = load_settings(default_config(config))
    if not build_rules(settings).marks:
        raise HedgerowError("these settings mark no links; set mode in [marker], such as HEDGEROW__MARKER__MODE=opaque")
    seal = build_token_codecs(settings).of(host)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    marked = 0
    with Progress(disable=not sys.stderr.isatty(), transient=True) as progress:
        for path in progress.track(files, description="marking"):
            to = output / path.relative_to(folder)
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix.lower() in _PAGES:
                to.write_bytes(
                    mark(path.read_bytes(), base + path.relative_to(folder).as_posix(), host, seal, settings)
                )
                marked += 1
            else:
                shutil.copy2(path, to)
    typer.echo(f"{marked} pages marked, {len(files) - marked} other files copied to {output}")


def mark(page: bytes, target: str, host: str, seal: TokenCodec, settings: Settings) -> bytes:
    """
    *page*, which will be at *target*, with its links marked for nobody in particular.

    A page in a charset that cannot be read as bytes is left as it is. An index page is known by its folder.
    """
    if carried_charset(b"text/html", page) is not None:
        return page
    folder, _, name = target.rpartition("/")
    where = folder + "/" if name in _INDEX else target
    place = PageLocation(b"http", host.encode(), where.encode("latin-1", "replace"))
    rules, prefix = build_rules(settings), settings.marker.prefix.encode()
    rewriter = PageRewriter(place, rules, prefix, SkeletonCache(0), seal, NOBODY, page_digest(where))
    return rewriter.feed(page, final=True)
