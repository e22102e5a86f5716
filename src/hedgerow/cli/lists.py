"""
`hedgerow lists show|review|subscriptions|add|remove|change|import|export`: the white and the black list.

The commands ask the running service or use the database of the lists: see `list_store`. Only `review` always uses the
database and the ledger: it counts all pages of a day, which is no work for the process that answers visitors.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text
from typer import Argument, Option

from hedgerow.cli.list_store import ImportSource, format_moment, open_lists, until_words
from hedgerow.cli.main import Config
from hedgerow.cli.output import STANDARD_OUTPUT, console, new_table, print_json, progress_bar, write_file
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.cli.visitor_store import open_visitor_stores
from hedgerow.core.attack import visitors_of
from hedgerow.core.decision import Block
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.lists.exporter import TARGETS, Target, write
from hedgerow.lists.importer import FORMATS, Defaults, Format, ListImport
from hedgerow.lists.model import OWN_AUTHOR, SUBJECT_KINDS, Listing, ListName, SubjectKind, clean_text, parse_subject
from hedgerow.lists.sql_store import ListFilter
from hedgerow.lists.times import parse_duration, parse_time
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.web.ledger_access import open_ledger
from hedgerow.web.list_review import Verdict, review
from hedgerow.web.stores import build_list_store
from hedgerow.web.subscriptions import Reading

app = typer.Typer()

_WIDTH = 140
_ENTRIES_PER_CHECK = 500
_FOLLOWS: dict[Verdict, str] = {
    "renew": "still crawls, is renewed within hours",
    "end": "ends by itself, and the visitor is judged again",
    "keep": "",
    "too much": "treated as unlisted until midnight: see white_volume",
}
_NO_OPERATORS = "set asn_file in [lists] to a file of network operators, and restart Hedgerow"
_ONE_LIST = frozenset({"plain"})

_List = Annotated[ListName, Argument(metavar="white|black")]
_Subject = Annotated[
    str, Argument(metavar="SUBJECT", help="An address, a network, account:NAME, agent:PATTERN or AS64496.")
]
_Subjects = Annotated[
    list[str], Argument(metavar="SUBJECT...", help="Addresses, networks, account:NAME, agent:PATTERN, AS64496.")
]
_OneList = Annotated[ListName | None, Option("--list", metavar="white|black", help="Only this list.")]
_Reason = Annotated[str | None, Option(help="Reason; visitors do not see it.")]
_Author = Annotated[str | None, Option(help="Author of the entry; default: your user name.")]
_For = Annotated[str | None, Option("--for", metavar="TIME", help="Duration, such as 90s, 30m, 12h or 7d.")]
_Until = Annotated[str | None, Option(metavar="MOMENT", help="End, such as 2027-01-15T08:00:00Z.")]


@app.command()
def show(
    subject: Annotated[
        str, Argument(metavar="[SUBJECT]", help="Entries that contain this address, or are for this subject.")
    ] = "",
    name: _OneList = None,
    sort: Annotated[
        SubjectKind | None, Option("--of", metavar="|".join(SUBJECT_KINDS), help="Only subjects of this kind.")
    ] = None,
    author: Annotated[str, Option(help="Only entries of this author.")] = "",
    reason: Annotated[str, Option(metavar="WORDS", help="Only entries whose reason contains these words.")] = "",
    ended: Annotated[bool, Option("--ended", help="Include entries that have ended.")] = False,
    limit: Annotated[int, Option(min=1, help="Number of entries to show; --json shows all.")] = 100,
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
    blocks: Annotated[
        bool, Option("--blocks", help="Show the blocks in force instead, by detectors and administrators.")
    ] = False,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """Show entries: all, those of a kind, or those that apply to one address, in order of precedence."""
    settings = find_site(config, directory, site, place="lists", changes=False, quiet=as_json)
    if blocks:
        _show_blocks(settings, site, as_json=as_json)
        return
    filter_ = ListFilter(
        list=name, kind=sort, address=_subject(subject) if subject else "", author=author, text=reason,
        in_force_at=None if ended else time.time(), limit=-1 if as_json or subject else limit + 1,
    )  # fmt: skip
    with open_lists(settings, site) as lists:
        entries = lists.read(filter_)
        if subject:
            entries = iter(sorted(entries, key=_precedence))
        if as_json:
            for piece in write("json", entries, at=0.0):
                typer.echo(piece, nl=False)
            return
        shown = list(entries)
    _print_entries(shown[:limit] if not subject else shown)
    if len(shown) > limit and not subject:
        typer.echo("There are more entries; use --limit or --json to show them.", err=True)


@app.command("review")
def review_(
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """Show what the visitors of white entries, and of Hedgerow's own black ones, did on the last day."""
    settings, now = find_site(config, directory, site, place="lists", changes=False, quiet=as_json), time.time()
    store = build_list_store(settings)
    wanted = (ListFilter(list="white", in_force_at=now), ListFilter(list="black", author=OWN_AUTHOR, in_force_at=now))
    with contextlib.closing(open_ledger(settings)) as ledger:
        reviews = review(chain(*map(store.read, wanted)), ledger, now, white_volume=settings.containment.white_volume)
    if as_json:
        print_json(
            [{**msgspec.to_builtins(one.listing), "pages": one.pages, "verdict": one.verdict} for one in reviews]
        )
        return
    if not reviews:
        typer.echo("No entries.")
        return
    table = new_table("list", "subject", "until (UTC)", ">pages in a day", "what follows")
    for one in reviews:
        until = format_moment(one.listing.until) or "for good"
        cells = (one.listing.list, one.listing.subject, until, f"{one.pages:,}", _FOLLOWS[one.verdict])
        table.add_row(*(Text(readable(cell)) for cell in cells))
    console(_WIDTH).print(table)


def _precedence(listing: Listing) -> tuple[int, bool]:
    """Sort key: the order in which entries for one address apply."""
    return parse_subject(listing.subject).shift, listing.list == "black"


def _print_entries(entries: list[Listing]) -> None:
    if not entries:
        typer.echo("No entries.")
        return
    table = new_table("list", "subject", "until (UTC)", "reason", "by", "since (UTC)")
    for entry in entries:
        cells = (
            entry.list, entry.subject, format_moment(entry.until) or "for good", entry.reason, entry.author,
            format_moment(entry.since),
        )  # fmt: skip
        table.add_row(*(Text(readable(cell)) for cell in cells))
    console(_WIDTH).print(table)


def _show_blocks(settings: Settings, site: str, *, as_json: bool) -> None:
    found: Sequence[Block] = ()
    if not settings.observe:
        with open_visitor_stores(settings, site) as stores:
            found, _ = stores.enforced.read(time.time())
    blocks = msgspec.to_builtins(sorted(visitors_of(found), key=lambda block: (block.until, block.key)))
    if as_json:
        typer.echo(json.dumps(blocks, indent=1))
        return
    table = new_table("blocked", "until (UTC)", "block no.", "why")
    for block in blocks:
        cells = (block["key"], format_moment(block["until"]), str(block["offence"]), block["evidence"]["text"])
        table.add_row(*(Text(readable(cell)) for cell in cells))
    console(_WIDTH).print(table) if blocks else typer.echo("Nobody is blocked.")


@app.command()
def add(
    name: _List,
    subjects: _Subjects,
    reason: _Reason = None,
    author: _Author = None,
    length: _For = None,
    until: _Until = None,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """Add subjects to a list. A running Hedgerow uses the entries within a second."""
    parsed, now = [_subject(text) for text in subjects], time.time()
    end = _end(length, until, now)
    settings = _settings(config, directory, site)
    if (ignored := next(filter(_is_operator, parsed), None)) and not settings.lists.asn_file:
        raise HedgerowError(f"{ignored} would have no effect: {_NO_OPERATORS}")
    with open_lists(settings, site) as lists:
        for subject in parsed:
            entry = Listing(name, subject, clean_text(reason or ""), _author(author), now, end)
            if not lists.add(entry):
                raise HedgerowError(
                    f"{readable(subject)} is already on the {name} list; "
                    f"use hedgerow lists change {name} {readable(subject)}"
                )
            typer.echo(f"{readable(subject)} is on the {name} list {until_words(end)}")


@app.command()
def change(
    name: _List,
    subject: _Subject,
    reason: _Reason = None,
    author: Annotated[str | None, Option(help="Author of the entry.")] = None,
    length: _For = None,
    until: _Until = None,
    for_good: Annotated[bool, Option("--for-good", help="Remove the end.")] = False,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """Change the reason, author or end of an entry."""
    now = time.time()
    if for_good and (length or until):
        raise SettingsError(["name one end: --for, --until or --for-good"])
    if not (for_good or length or until) and reason is None and author is None:
        raise SettingsError(["name what to change: --reason, --author, --for, --until or --for-good"])
    settings = _settings(config, directory, site)
    with open_lists(settings, site) as lists:
        entry = next(iter(lists.read(ListFilter(list=name, subject=_subject(subject)))), None)
        if entry is None:
            raise _missing(name, subject)
        changed = msgspec.structs.replace(
            entry,
            reason=entry.reason if reason is None else clean_text(reason),
            author=entry.author if author is None else clean_text(author),
            until=0.0 if for_good else _end(length, until, now) if length or until else entry.until,
        )
        lists.change(changed)
    typer.echo(f"{readable(entry.subject)} is on the {name} list {until_words(changed.until)}")


@app.command()
def remove(
    name: _List, subjects: _Subjects, config: Config = None, directory: Directory = None, site: SiteName = ""
) -> None:
    """Remove subjects from a list."""
    parsed = [_subject(text) for text in subjects]
    with open_lists(_settings(config, directory, site), site) as lists:
        for subject in parsed:
            if not lists.remove(name, subject):
                raise _missing(name, subject)
            typer.echo(f"{readable(subject)} is off the {name} list")


@app.command()
def subscriptions(
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """Show the lists of others that the settings subscribe to: entries, last reading, and last failure."""
    settings = find_site(config, directory, site, place="lists", changes=False, quiet=as_json)
    with open_lists(settings, site) as lists:
        readings = lists.readings()
    found = [(one, readings.get(one.name, Reading())) for one in settings.lists.subscriptions]
    if as_json:
        print_json([{**msgspec.to_builtins(one), **msgspec.to_builtins(known)} for one, known in found])
        return
    if not found:
        typer.echo("No subscriptions; add [[lists.subscriptions]] to the settings.")
        return
    table = new_table("name", "list", "source", ">entries", ">left out", "read (UTC)", ">failures", "last failure")
    for one, known in found:
        read = format_moment(known.read_at) if known.read_at else "never"
        numbers = f"{known.entries:,}", f"{known.left_out:,}"
        cells = (one.name, one.list, one.source, *numbers, read, f"{known.failures:,}", known.error)
        table.add_row(*(Text(readable(cell)) for cell in cells))
    console(_WIDTH).print(table)


@app.command("import")
def import_(
    file: Annotated[str, Argument(metavar="FILE", help="File to read; - for standard input.")],
    name: Annotated[
        ListName, Option("--list", metavar="white|black", help="List for entries that name none.")
    ] = "black",
    kind: Annotated[
        Format | None, Option("--format", metavar="|".join(FORMATS), help="Format; default: detected.")
    ] = None,
    reason: Annotated[str, Option(help="Reason for entries that have none.")] = "",
    author: _Author = None,
    length: _For = None,
    until: _Until = None,
    skip_bad: Annotated[bool, Option("--skip-bad", help="Skip bad lines instead of importing nothing.")] = False,
    replace: Annotated[
        bool, Option("--replace", help="Remove entries of this author that are not in the file.")
    ] = False,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """
    Import a list: plain text, CSV, JSON, or the output of fail2ban or CrowdSec. All of it is imported, or nothing.
    """
    now = time.time()
    owner = _author(author)
    if replace and not owner:
        raise SettingsError(["--replace needs an --author"])
    defaults = Defaults(now, name, clean_text(reason), owner, _end(length, until, now))
    with _open(file) as source:
        settings = _settings(config, directory, site)
        reading = ListImport(source, readable(file), defaults, format=kind, skip_bad=skip_bad)
        with open_lists(settings, site) as lists:
            count = lists.import_entries(
                _with_progress(reading, _size(source)), ImportSource(file, name), replacing=owner if replace else ""
            )
            lists_operators = any(lists.read(ListFilter(kind="asn", limit=1)))
    for fault in reading.faults:
        typer.echo(f"{readable(file)}:{fault.line}: {readable(fault.text)}", err=True)
    summary = f"{count:,} entries imported ({reading.format})"
    if reading.bad:
        summary += f"; {reading.bad:,} bad lines skipped"
    if reading.left_out:
        summary += "; left out: " + ", ".join(f"{n:,} {kind}" for kind, n in sorted(reading.left_out.items()))
    typer.echo(readable(summary))
    if not settings.lists.asn_file and lists_operators:
        typer.echo(f"Entries for network operators (AS numbers) have no effect: {_NO_OPERATORS}", err=True)


@app.command()
def export(
    target: Annotated[Target, Argument(metavar="FORMAT", help=", ".join(TARGETS))],
    output: Annotated[
        str, Option("--output", "-o", metavar="FILE", help="File, replaced atomically; default: standard output.")
    ] = STANDARD_OUTPUT,
    name: _OneList = None,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """
    Export the current entries, for Hedgerow or another program. Plain text holds one list, by default the black list.
    """
    now = time.time()
    chosen = name or ("black" if target in _ONE_LIST else None)
    settings = find_site(config, directory, site, place="lists", changes=False, quiet=True)
    with open_lists(settings, site) as lists:
        parts = write(target, lists.read(ListFilter(list=chosen, in_force_at=now)), at=now)
        if output == STANDARD_OUTPUT:
            sys.stdout.writelines(parts)
        else:
            write_file(Path(output), parts)


def _settings(config: Path | None, directory: Path | None, site: str) -> Settings:
    """Return the settings of the service whose lists are changed."""
    settings = find_site(config, directory, site, place="lists")
    if not settings.lists.enabled:
        raise HedgerowError("lists have no effect: set enabled = true in [lists]")
    return settings


def _is_operator(subject: str) -> bool:
    return parse_subject(subject).kind == "asn"


def _subject(text: str) -> str:
    try:
        return parse_subject(text).text
    except ValueError as error:
        raise SettingsError([readable(str(error))]) from None


def _end(length: str | None, until: str | None, now: float) -> float:
    """Return the end of an entry; 0 for an entry without an end."""
    if length and until:
        raise SettingsError(["name one end: --for or --until"])
    try:
        end = now + parse_duration(length) if length else parse_time(until)
    except ValueError as error:
        raise SettingsError([readable(str(error))]) from None
    if (length or until) and end <= now:
        raise SettingsError([f"the end {readable(length or until or '')!r} has passed"])
    return end


def _author(author: str | None) -> str:
    if author is None:
        try:
            author = os.environ.get("SUDO_USER") or getpass.getuser()
        except (KeyError, OSError):
            # The user has no name, as in many containers.
            author = ""
    return clean_text(author)


def _missing(name: str, subject: str) -> HedgerowError:
    return HedgerowError(f"{readable(subject)} is not on the {name} list; see hedgerow lists show")


def _open(file: str) -> contextlib.AbstractContextManager[Any]:
    try:
        return contextlib.nullcontext(sys.stdin.buffer) if file == STANDARD_OUTPUT else Path(file).open("rb")
    except OSError as error:
        raise HedgerowError(f"{readable(file)}: cannot be read: {error.strerror}") from None


def _size(source: io.BufferedReader) -> int:
    """Return the number of bytes to read; 0 if unknown."""
    with contextlib.suppress(OSError):
        return os.fstat(source.fileno()).st_size
    return 0


def _with_progress(reading: ListImport, size: int) -> Iterator[Listing]:
    """Yield the entries and show a progress bar."""
    with progress_bar("Importing", "entries") as show_progress:
        for number, listing in enumerate(reading):
            if number % _ENTRIES_PER_CHECK == 0:
                show_progress(reading.bytes_read, size, number)
            yield listing
