"""The output of `hedgerow report`: files that are written all or none, and entries of the black list."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hedgerow.cli.output import STANDARD_OUTPUT, is_writable, write_files
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.lists.exporter import TARGETS, Target, write
from hedgerow.logs.formats import readable
from hedgerow.settings.load import Settings

if TYPE_CHECKING:
    from hedgerow.report.result import Report


class OutputFiles(msgspec.Struct, frozen=True):
    """
    The files that a report is written to; "-" is standard output.

    *lists* are formats and files of crawlers with a score of at least *min_score*. *timing*: the JSON has times. The
    page loads itself again after *refresh* seconds, if that is not 0.
    """

    json_path: str | None
    html_path: str | None
    lists: tuple[tuple[Target, str], ...] = ()
    min_score: float = 0.9
    timing: bool = False
    refresh: int = 0

    def check_writable(self) -> bool:
        """Check that all files can be written. Return whether standard output is free for the summary."""
        paths = [self.json_path, self.html_path, *(path for _, path in self.lists)]
        for path in paths:
            if path is not None and path != STANDARD_OUTPUT and not is_writable(Path(path)):
                raise HedgerowError(f"{readable(path)}: cannot be written; name another file")
        if paths.count(STANDARD_OUTPUT) > 1:
            raise SettingsError(["only one output can go to standard output; name a file for the others"])
        return STANDARD_OUTPUT not in paths

    def write(self, report: Report) -> None:
        """Write all files, or none. The time of lists is the end of the log: the same log gives the same bytes."""
        from hedgerow.report.blocklist import listings

        files: list[tuple[str, Iterator[str]]] = []
        if self.json_path is not None:
            files.append((self.json_path, report.to_json(timing=self.timing)))
        if self.html_path is not None:
            from hedgerow.report.html.page import page

            files.append((self.html_path, page(report, refresh=self.refresh)))
        at = report.read_counts.last or 0.0
        for target, path in self.lists:
            files.append((path, write(target, listings(report, since=at, until=0.0, sure=self.min_score), at=at)))
        for parts in (parts for path, parts in files if path == STANDARD_OUTPUT):
            sys.stdout.writelines(parts)
        write_files([(Path(path), parts) for path, parts in files if path != STANDARD_OUTPUT])


def apply_to_black_list(report: Report, settings: Settings, seconds: float, min_score: float) -> int:
    """Put the crawlers on the black list of the running Hedgerow. Return their number."""
    from hedgerow.lists.model import OWN_AUTHOR
    from hedgerow.report.blocklist import listings
    from hedgerow.web.stores import build_list_store

    now = time.time()
    entries = listings(report, since=now, until=now + seconds, sure=min_score)
    return build_list_store(settings).put(entries, replacing=OWN_AUTHOR)


def parse_target(text: str) -> tuple[Target, str]:
    name, separator, path = text.partition("=")
    target = next((one for one in TARGETS if one == name), None)
    if target is None or not separator or not path:
        raise SettingsError([f"--export needs FORMAT=FILE, with one of {', '.join(TARGETS)}; not {readable(text)!r}"])
    return target, path
