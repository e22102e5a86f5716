"""
`hedgerow mark DIR`: mark the links in a folder of HTML files, as PathMarker's pre-processing script does.

The markers contain page and target but no visitor, so any server can deliver the files. A Hedgerow in front of it opens
the links. All other files are copied unchanged.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Argument, Option

from hedgerow.cli.main import Config
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
    folder: Annotated[Path, Argument(metavar="DIR", help="A folder of HTML files.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Folder for the marked copy.")],
    host: Annotated[str, Option(metavar="NAME", help="Host name of the published site.")],
    base: Annotated[str, Option(metavar="PATH", help="Path of the published folder.")] = "/",
    config: Config = None,
) -> None:
    if not folder.is_dir():
        raise HedgerowError(f"{folder} is not a folder")
    if output.exists():
        raise HedgerowError(f"{output} exists already; name a new folder")
    if not base.startswith("/") or not base.endswith("/"):
        raise HedgerowError(f"--base {base} must start and end with /")
    settings = load_settings(config)
    if not build_rules(settings).marks:
        raise HedgerowError("these settings mark no links; set mode in [marker], such as HEDGEROW__MARKER__MODE=opaque")
    codec = build_token_codecs(settings).of(host)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    marked = 0
    with Progress(disable=not sys.stderr.isatty(), transient=True) as progress:
        for path in progress.track(files, description="marking"):
            destination = output / path.relative_to(folder)
            destination.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix.lower() in _PAGES:
                target = base + path.relative_to(folder).as_posix()
                destination.write_bytes(mark(path.read_bytes(), target, host, codec, settings))
                marked += 1
            else:
                shutil.copy2(path, destination)
    typer.echo(f"{marked} pages marked, {len(files) - marked} other files copied to {output}")


def mark(page: bytes, target: str, host: str, codec: TokenCodec, settings: Settings) -> bytes:
    """Return *page* with links marked for nobody; unchanged if its charset is incompatible with ASCII."""
    if carried_charset(b"text/html", page) is not None:
        return page
    folder, _, name = target.rpartition("/")
    identity_target = folder + "/" if name in _INDEX else target
    location = PageLocation(b"http", host.encode(), identity_target.encode("latin-1", "replace"))
    rules, prefix = build_rules(settings), settings.marker.prefix.encode()
    rewriter = PageRewriter(location, rules, prefix, SkeletonCache(0), codec, NOBODY, page_digest(identity_target))
    return rewriter.feed(page, final=True)
