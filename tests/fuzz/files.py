"""Files of operators and of other programs: log lines, settings, lists."""

from __future__ import annotations

import io
from contextlib import suppress

from driving import START
from hedgerow.errors import HedgerowError, LogError, SettingsError
from hedgerow.lists.importer import Defaults, ListImport
from hedgerow.lists.model import LISTS, Lists, parse_subject
from hedgerow.logs.dialect import FORMAT_NAMES, Dialect, detect_format, is_directive, parser
from hedgerow.logs.formats import Format
from hedgerow.logs.wrappers import WRAPPERS, detect_utf16, detect_wrapper
from hedgerow.settings import read_settings
from hedgerow.settings.dangers import dangers

from .registry import target

FORMATS = ("plain", "csv", "json", "fail2ban", "crowdsec")
PARSERS = [parser(Format(name)) for name in FORMAT_NAMES]
NGINX = Dialect('$remote_addr [$time_local] "$request" $status "$http_user_agent"')
PATTERN = parser(Format("pattern"), NGINX)


@target("log-line")
def log_line(data: bytes) -> None:
    """A line is a visit or bad, in every format and wrapper; only a log as a whole can be refused."""
    lines = data.split(b"\n")
    for line in lines:
        for parse in [*PARSERS, PATTERN]:
            if not is_directive(parse, line) and (visit := parse(line)) is not None:
                assert visit.at == visit.at, "a time that is none"
        for unwrap in WRAPPERS.values():
            unwrap(line)
    detect_wrapper(lines)
    detect_utf16(data)
    with suppress(LogError):
        detect_format(lines)


@target("log-format")
def log_format(data: bytes) -> None:
    """A format of the operator's own describes lines, or is refused with a sentence."""
    form, _, line = data.partition(b"\n")
    dialect = Dialect(form.decode("latin-1"))
    with suppress(LogError):
        dialect.check()
        parser(detect_format([line], dialect), dialect)(line)


@target("settings")
def settings_file(data: bytes) -> None:
    """Settings are read or refused with sentences, which have one line each."""
    try:
        found = read_settings(data.decode("utf-8", "replace"), environment={})
    except SettingsError:
        return
    for name, sentence in dangers(found):
        assert "." in name
        assert "\n" not in sentence


@target("lists")
def lists_file(data: bytes) -> None:
    """Entries are imported or refused with a sentence, and what was imported is found."""
    if not data:
        return
    for skip_bad in (False, True):
        source = io.BufferedReader(io.BytesIO(data[1:]))
        form = None if data[0] > 4 else FORMATS[data[0]]
        imported = ListImport(source, "bans", Defaults(at=START), format=form, skip_bad=skip_bad)
        lists = Lists()
        with suppress(HedgerowError):
            for entry in imported:
                assert entry.list in LISTS
                assert parse_subject(entry.subject).text == entry.subject, "a subject is not in its usual form"
                assert not {"\n", "\r", "\x1b"} & set(entry.reason + entry.author)
                lists.put(entry)
        lists.settle()
        lists.find(START, "192.0.2.1", "ann", "curl/8")
