"""`hedgerow lists show|add|remove|change|import|export`: who is let in, or kept out, by the administrator's word."""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hedgerow.cli.options import Config, default_config
from hedgerow.cli.output_files import write_file
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.lists.exporter import TARGETS, Target, write
from hedgerow.lists.importer import FORMATS, Defaults, Format, ListImport
from hedgerow.lists.model import SUBJECT_KINDS, Listing, ListName, SubjectKind, clean_text, parse_subject
from hedgerow.lists.sql_store import ListFilter, ListStore
from hedgerow.lists.times import iso, parse_duration, parse_time
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings, load_settings
from hedgerow.web.stores import build_list_store

app = typer.Typer(help="White and black lists: who is let in, or kept out, by your word.", no_args_is_help=True)

_STANDARD = "-"
_WIDTH_OF_A_FILE = 140
_TICK = 0.2
_ONE_LIST = frozenset({"plain"})

_List = Annotated[ListName, typer.Argument(metavar="white|black")]
_Subject = Annotated[
    str, typer.Argument(metavar="SUBJECT", help="An address, a network, account:NAME, agent:PATTERN or AS64496.")
]
_Subjects = Annotated[
    list[str],
    typer.Argument(metavar="SUBJECT...", help="Addresses, networks, account:NAME, agent:PATTERN, AS64496."),
]
_OneList = Annotated[ListName | None, typer.Option("--list", metavar="white|black", help="One list.")]
_Reason = Annotated[str | None, typer.Option(help="Why; visitors do not see it.")]
_Author = Annotated[str | None, typer.Option(help="Who says so; your user name without.")]
_For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="For so long: 90s, 30m, 12h, 7d.")]
_Until = Annotated[str | None, typer.Option(metavar="MOMENT", help="Until then: 2027-01-15T08:00:00Z.")]


@app.command()
def show(
    subject: Annotated[
        str, typer.Argument(metavar="[SUBJECT]", help="Entries that hold this address, or are about this subject.")
    ] = "",
    name: _OneList = None,
    sort: Annotated[SubjectKind | None, typer.Option("--of", metavar="|".join(SUBJECT_KINDS), help="One sort.")] = None,
    author: Annotated[str, typer.Option(help="Entries of this author.")] = "",
    reason: Annotated[str, typer.Option(metavar="WORDS", help="Entries whose reason holds these words.")] = "",
    ended: Annotated[bool, typer.Option("--ended", help="Those that have ended, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many to show; --json shows all.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="The detectors' blocks in force, asked of the admin listener.")
    ] = False,
    config: Config = None,
) -> None:
    """Show entries: all, those of a kind, or those that speak of one address; the first of these counts."""
    settings = load_settings(default_config(config))
    if blocks:
        _show_blocks(settings, as_json=as_json)
        return
    wanted = ListFilter(
        list=name,
        kind=sort,
        address=_subject(subject) if subject else "",
        author=author,
        text=reason,
        in_force_at=None if ended else time.time(),
        limit=-1 if as_json or subject else limit + 1,
    )
    found = build_list_store(settings).read(wanted)
    if subject:
        found = iter(sorted(found, key=_specific))
    if as_json:
        for piece in write("json", found, at=0.0):
            typer.echo(piece, nl=False)
        return
    entries = list(found)
    _print_entries(entries[:limit] if not subject else entries)
    if len(entries) > limit and not subject:
        typer.echo("and more; --limit shows more of them, --json all", err=True)


def _specific(listing: Listing) -> tuple[int, bool]:
    """The order in which entries on one address count."""
    return parse_subject(listing.subject).shift, listing.list == "black"


def _print_entries(entries: list[Listing]) -> None:
    if not entries:
        typer.echo("No entries.")
        return
    table = Table("list", "subject", "until (UTC)", "reason", "by", "since (UTC)")
    for column in table.columns:
        column.overflow = "fold"
    for entry in entries:
        cells = (
            entry.list, entry.subject, _moment(entry.until) or "for good", entry.reason, entry.author,
            _moment(entry.since),
        )  # fmt: skip
        table.add_row(*(Text(readable(cell)) for cell in cells))
    _console().print(table)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)


def _moment(at: float) -> str:
    return iso(float(int(at))).replace("T", " ").removesuffix("Z")


def _show_blocks(settings: Settings, *, as_json: bool) -> None:
    where = settings.admin.listen
    if not where:
        raise SettingsError(["blocks are asked of the admin listener; name it in the settings: [admin] listen"])
    # Straight to it, whatever proxies the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{where}/blocks", timeout=10) as answer:
            found = json.load(answer)
    except (OSError, ValueError) as error:
        raise HedgerowError(f"the admin listener at {where} does not answer: {error}") from None
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    table = Table("blocked", "until (UTC)", "time", "why")
    for block in found:
        cells = (block["key"], _moment(block["until"]), f"{block['offence']}.", block["evidence"]["text"])
        table.add_row(*(Text(readable(cell)) for cell in cells))
    _console().print(table) if found else typer.echo("Nobody is blocked.")


@app.command()
def add(
    name: _List,
    subjects: _Subjects,
    reason: _Reason = None,
    author: _Author = None,
    length: _For = None,
    until: _Until = None,
    config: Config = None,
) -> None:
    """Put somebody on a list. A running Hedgerow notices within a second."""
    store, now = _store(config), time.time()
    end = _end(length, until, now)
    for subject in [_subject(text) for text in subjects]:
        entry = Listing(name, subject, clean_text(reason or ""), _author(author), now, end)
        if not store.add(entry):
            raise HedgerowError(
                f"{readable(subject)} is on the {name} list already; hedgerow lists change {name} {readable(subject)}"
            )
        typer.echo(f"{readable(subject)} is on the {name} list {_until_words(end)}")


@app.command()
def change(
    name: _List,
    subject: _Subject,
    reason: _Reason = None,
    author: Annotated[str | None, typer.Option(help="Who says so.")] = None,
    length: _For = None,
    until: _Until = None,
    for_good: Annotated[bool, typer.Option("--for-good", help="Without an end.")] = False,
    config: Config = None,
) -> None:
    """Change an entry: its reason, author or end."""
    store, now = _store(config), time.time()
    if for_good and (length or until):
        raise SettingsError(["name one end: --for, --until or --for-good"])
    if not (for_good or length or until) and reason is None and author is None:
        raise SettingsError(["say what is to change: --reason, --author, --for, --until or --for-good"])
    found = list(store.read(ListFilter(list=name, subject=_subject(subject))))
    if not found:
        raise _missing(name, subject)
    entry = found[0]
    changed = msgspec.structs.replace(
        entry,
        reason=entry.reason if reason is None else clean_text(reason),
        author=entry.author if author is None else clean_text(author),
        until=0.0 if for_good else _end(length, until, now) if length or until else entry.until,
    )
    store.put([changed])
    typer.echo(f"{readable(entry.subject)} is on the {name} list {_until_words(changed.until)}")


@app.command()
def remove(name: _List, subjects: _Subjects, config: Config = None) -> None:
    """Take somebody off a list."""
    store = _store(config)
    for subject in [_subject(text) for text in subjects]:
        if not store.remove(name, subject):
            raise _missing(name, subject)
        typer.echo(f"{readable(subject)} is off the {name} list")


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What to read; - for standard input.")],
    name: Annotated[
        ListName,
        typer.Option("--list", metavar="white|black", help="For entries that do not say."),
    ] = "black",
    kind: Annotated[
        Format | None,
        typer.Option("--format", metavar="|".join(FORMATS), help="Without, the file tells."),
    ] = None,
    reason: Annotated[str, typer.Option(help="For entries that have none.")] = "",
    author: _Author = None,
    length: _For = None,
    until: _Until = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad lines out; else nothing is imported.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="What this author had entered before and is not in the file goes.")
    ] = False,
    config: Config = None,
) -> None:
    """Import a list: plain text, CSV, JSON, or what fail2ban and CrowdSec print. All of it, or nothing."""
    store, now = _store(config), time.time()
    who = _author(author)
    if replace and not who:
        raise SettingsError(["--replace needs an --author"])
    defaults = Defaults(now, name, clean_text(reason), who, _end(length, until, now))
    with _opened(file) as source:
        reading = ListImport(source, readable(file), defaults, format=kind, skip_bad=skip_bad)
        taken = store.put(_watched(reading, _size(source)), replacing=who if replace else "")
    for fault in reading.faults:
        typer.echo(f"{readable(file)}:{fault.line}: {readable(fault.text)}", err=True)
    told = f"{taken:,} entries imported ({reading.format})"
    if reading.bad:
        told += f"; {reading.bad:,} bad lines skipped"
    if reading.left_out:
        told += "; left out: " + ", ".join(f"{n:,} {what}" for what, n in sorted(reading.left_out.items()))
    typer.echo(readable(told))


@app.command()
def export(
    target: Annotated[Target, typer.Argument(metavar="FORMAT", help=", ".join(TARGETS))],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Written in one step; standard output without.")
    ] = _STANDARD,
    name: _OneList = None,
    config: Config = None,
) -> None:
    """Export the entries in force, for ourselves or for another program. Plain text holds one list: black without."""
    now = time.time()
    chosen = name or ("black" if target in _ONE_LIST else None)
    entries = build_list_store(load_settings(default_config(config))).read(ListFilter(list=chosen, in_force_at=now))
    pieces = write(target, entries, at=now)
    if output == _STANDARD:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    write_file(Path(output), pieces)


# ---- What is typed


def _store(config: Path | None) -> ListStore:
    return build_list_store(load_settings(default_config(config)))


def _subject(text: str) -> str:
    try:
        return parse_subject(text).text
    except ValueError as error:
        raise SettingsError([readable(str(error))]) from None


def _end(length: str | None, until: str | None, now: float) -> float:
    """The moment until which an entry is to hold; 0 for good."""
    if length and until:
        raise SettingsError(["name one end: --for or --until"])
    try:
        end = now + parse_duration(length) if length else parse_time(until)
    except ValueError as error:
        raise SettingsError([readable(str(error))]) from None
    if (length or until) and end <= now:
        raise SettingsError([f"the end {readable(length or until or '')!r} has passed"])
    return end


def _until_words(end: float) -> str:
    return f"until {_moment(end)} UTC" if end else "for good"


def _author(author: str | None) -> str:
    if author is None:
        try:
            author = os.environ.get("SUDO_USER") or getpass.getuser()
        except (KeyError, OSError):
            # A user without a name, as in many a container.
            author = ""
    return clean_text(author)


def _missing(name: str, subject: str) -> HedgerowError:
    return HedgerowError(f"{readable(subject)} is not on the {name} list; see hedgerow lists show")


# ---- A file on its way in


@contextlib.contextmanager
def _opened(file: str) -> Iterator[io.BufferedReader]:
    if file == _STANDARD:
        source: Any = sys.stdin.buffer
        yield source
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise HedgerowError(f"{readable(file)}: cannot be read: {error.strerror}") from None
    with opened:
        yield opened


def _size(source: io.BufferedReader) -> int:
    """How many bytes there are to read; 0 where nobody knows."""
    with contextlib.suppress(OSError):
        return os.fstat(source.fileno()).st_size
    return 0


def _watched(reading: ListImport, size: int) -> Iterator[Listing]:
    """The entries, under a progress bar where somebody looks."""
    console = Console(stderr=True)
    columns = (
        TextColumn("Importing"),
        BarColumn(),
        TextColumn("{task.fields[entries]:,} entries"),
        TimeRemainingColumn(),
    )
    shown = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=size or None, entries=0)
        for number, listing in enumerate(reading):
            if not number % 500 and (now := time.monotonic()) - shown > _TICK:
                shown = now
                progress.update(task, completed=reading.bytes_read, entries=number)
            yield listing
