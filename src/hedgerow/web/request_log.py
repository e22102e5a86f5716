"""
Log lines about requests: decisions other than pass, and failures of the protected site.

Lines are limited per second, so that a flood of requests does not fill the disk. One line then says how many were left
out. They contain no query, cookie, header or marked link, which may be secret.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import secrets
import threading
import time

from hedgerow.core.decision import Decision
from hedgerow.core.visit import HIDDEN_KINDS, Visit
from hedgerow.errors import UpstreamError
from hedgerow.logs.formats import readable
from hedgerow.request.path_rules import rule_of
from hedgerow.settings.tables import LoggingSettings
from hedgerow.web.log_format import Field

log = logging.getLogger("hedgerow")
_decisions = logging.getLogger("hedgerow.decisions")
_failures = logging.getLogger("hedgerow.upstream")
_blocks = logging.getLogger("hedgerow.core.gate")

_PARTICIPLES = {"challenge": "challenged", "detain": "detained", "refuse": "refused"}
_NO_PATH = "(marked link)"
_SECOND = 1.0
_MAX_TEXT = 300
_GOOD_ID = re.compile(rb"[!-~]{1,128}")


class LineLimit(logging.Filter):
    """Lets *per_second* lines about *what* pass in each second, and reports how many it left out."""

    def __init__(self, per_second: int, what: str) -> None:
        super().__init__()
        self.per_second = per_second
        self._what = what
        self._lock = threading.Lock()
        self._since = 0.0
        self._count = 0
        self._left_out = 0
        self._timer: threading.Timer | None = None

    def allows(self) -> bool:
        """Return whether one more line may be written now."""
        now = time.monotonic()
        with self._lock:
            if now - self._since >= _SECOND:
                self._since, self._count = now, 0
            self._count += 1
            if self._count <= self.per_second:
                return True
            self._left_out += 1
            if self._timer is None:
                self._timer = threading.Timer(_SECOND, self.report)
                self._timer.daemon = True
                self._timer.start()
        return False

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - overrides
        return self.allows()

    def report(self) -> None:
        """Write how many lines were left out since the last report."""
        with self._lock:
            left_out, self._left_out = self._left_out, 0
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if left_out:
            fields = {"left_out": left_out}
            log.warning("left out %d lines about %s", left_out, self._what, extra={"fields": fields})


class RequestLog:
    """Writes the lines about requests of one site, with the name *site* if there are several."""

    def __init__(self, settings: LoggingSettings, site: str = "") -> None:
        self._site: dict[str, Field] = {"site": site} if site else {}
        self._at = f"site {site}: " if site else ""
        self._decided = LineLimit(settings.per_second, "decisions")
        self._failed = LineLimit(settings.per_second, "failures of the site")
        self._blocked = LineLimit(settings.per_second, "blocks")
        _blocks.addFilter(self._blocked)

    def configure(self, settings: LoggingSettings) -> None:
        for limit in (self._decided, self._failed, self._blocked):
            limit.per_second = settings.per_second

    def decided(self, visit: Visit, decision: Decision, status: int, reference: str, request_id: str) -> None:
        """Write a line about a visit that does not pass, or would not if the site did not only observe."""
        if not _decisions.isEnabledFor(logging.INFO) or not self._decided.allows():
            return
        would_have = "would have " if decision.observed else ""
        done = would_have + _PARTICIPLES.get(decision.action, decision.action)
        fields: dict[str, Field] = self._site | {"action": decision.action, "code": decision.code}
        if decision.observed:
            fields["observed"] = True
        if rule := rule_of(decision.evidence):
            fields["rule"] = readable(rule)[:_MAX_TEXT]
        fields |= _request_fields(visit, status, reference, request_id)
        _decisions.info(
            "%s%s %s: %s, %s%s%s", self._at, done, fields["visitor"], decision.code,
            f"{fields['method']} {fields['path']}", f", rule for {fields['rule']}" if rule else "",
            _ids(reference, request_id), extra={"fields": fields},
        )  # fmt: skip

    def failed(self, error: UpstreamError, visit: Visit, status: int, reference: str, request_id: str) -> None:
        """Write a line about a visit that the site has not answered."""
        if not _failures.isEnabledFor(logging.WARNING) or not self._failed.allows():
            return
        fields = {**self._site, "kind": error.kind, **_request_fields(visit, status, reference, request_id)}
        _failures.warning(
            "%sthe site failed (%s): %s, %s%s", self._at, error.kind, readable(str(error)),
            f"{fields['method']} {fields['path']}", _ids(reference, request_id), extra={"fields": fields},
        )  # fmt: skip

    def close(self) -> None:
        _blocks.removeFilter(self._blocked)
        for limit in (self._decided, self._failed, self._blocked):
            limit.report()


def shown_path(visit: Visit) -> str:
    """Return the path of a visit. The address of a hidden or changed link is nothing but a token, and is left out."""
    is_token = visit.is_page_unknown or (visit.marker is not None and visit.marker.kind in HIDDEN_KINDS)
    return _NO_PATH if is_token else visit.path


def _request_fields(visit: Visit, status: int, reference: str, request_id: str) -> dict[str, Field]:
    texts = {
        "visitor": visit.visitor, "address": visit.address, "method": visit.method, "host": visit.host,
        "path": shown_path(visit),
    }  # fmt: skip
    fields: dict[str, Field] = {name: readable(text)[:_MAX_TEXT] for name, text in texts.items()}
    fields["status"] = status
    ids = {"reference": reference, "request_id": request_id}
    return fields | {name: value for name, value in ids.items() if value}


def _ids(reference: str, request_id: str) -> str:
    named = (("reference", reference), ("request", request_id))
    return "".join(f", {name} {value}" for name, value in named if value)


# ---- Request ids


class _Ids:
    """Ids that are different in all processes. To ask for random numbers each time would take longer."""

    def __init__(self) -> None:
        self._next = itertools.count().__next__
        self.renew()

    def renew(self) -> None:
        self._start = secrets.token_hex(6)

    def new(self) -> str:
        return "%s%06x" % (self._start, self._next())  # noqa: UP031 - half the time of a format string


_ids_of_process = _Ids()
os.register_at_fork(after_in_child=_ids_of_process.renew)
new_request_id = _ids_of_process.new


def is_request_id(value: bytes) -> bool:
    """Return whether a proxy's id can be used: it is short, and safe to write anywhere."""
    return _GOOD_ID.fullmatch(value) is not None
