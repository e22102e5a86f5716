"""
How log lines look: text, JSON or logfmt.

A line about a request carries its facts as fields (`extra={"fields": ...}`). In text they are part of the message; JSON
and logfmt have them as keys, for log collectors.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping

import msgspec

from hedgerow.settings.tables import LoggingSettings

Field = str | int | bool
_PLAIN = re.compile(r"[^\s\"=\\]+", re.ASCII)


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return msgspec.json.encode(dict(_facts(self, record))).decode()


class LogfmtFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={logfmt_value(value)}" for key, value in _facts(self, record))


def logfmt_value(value: Field) -> str:
    r"""
    Return a value of logfmt, in quotes if it needs them.

    >>> print(logfmt_value(True), logfmt_value(403), logfmt_value("/a"), logfmt_value('say "x"\n'))
    true 403 /a "say \"x\"\n"
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(text).decode()


def _facts(formatter: logging.Formatter, record: logging.LogRecord) -> Iterator[tuple[str, Field]]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    yield "time", f"{at}.{int(record.msecs):03d}Z"
    yield "level", record.levelname.lower()
    yield "logger", record.name
    yield "message", _encodable(record.getMessage())
    fields: Mapping[str, Field] = getattr(record, "fields", {})
    yield from fields.items()
    if record.exc_info:
        yield "exception", _encodable(formatter.formatException(record.exc_info))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


_FORMATTERS = {"text": TextFormatter, "json": JsonFormatter, "logfmt": LogfmtFormatter}


def log_to_stderr(settings: LoggingSettings) -> None:
    """Log to standard error in the form of the settings, without the messages of uvicorn. May be called again."""
    root = logging.getLogger()
    ours = next((one for one in root.handlers if isinstance(one.formatter, tuple(_FORMATTERS.values()))), None)
    if ours is None:
        ours = logging.StreamHandler(sys.stderr)
        root.addHandler(ours)
    ours.setFormatter(_FORMATTERS[settings.format]())
    root.setLevel(settings.level.upper())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # It writes a line for each try to export; `web.traces` says once that the collector does not answer.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
