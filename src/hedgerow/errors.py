"""
What can be broken, as a tree.

    HedgerowError               everything below: the command line prints it as one line and exits
    ├── SettingsError           the settings are wrong; carries every fault at once
    ├── DetectorError           a detector cannot be loaded, or its declaration is wrong
    ├── LogError                a log cannot be read at all (a bad line is counted, not raised)
    ├── ModelError              a bundle of models cannot be used, or none can be trained
    ├── StoreError              a store cannot be opened or written
    │   ├── StoreAwayError      it does not answer now, and may later
    │   └── StoreCorruptError   its file was corrupt, and has been set aside: a new one is empty
    ├── TlsError                a certificate or its key cannot be used, or none can be obtained
    └── UpstreamError           the site behind the proxy gave no usable answer

Expected outcomes, such as a forged marker, are values and not found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not as they should be: also if they are not UTF-8 or nested too deeply."""

UpstreamFault = Literal["connect", "timeout", "broken", "busy"]


class HedgerowError(Exception):
    """Something is broken; the message is one line that says what to do."""


class SettingsError(HedgerowError):
    """The settings are wrong. *faults* has one line for each, with file and line number where known."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class DetectorError(HedgerowError):
    """A detector cannot be loaded, or its declaration is wrong."""


class LogError(HedgerowError):
    """A log cannot be read at all."""


class ModelError(HedgerowError):
    """A bundle of models cannot be used, or none can be trained from what there is."""


class StoreError(HedgerowError):
    """A store cannot be opened or written."""


class StoreAwayError(StoreError):
    """A store does not answer now, and may later."""


class StoreCorruptError(StoreError):
    """The file of a store was corrupt, and has been set aside: a new one is empty."""


class TlsError(HedgerowError):
    """A certificate or its key cannot be used, or none can be obtained."""


class UpstreamError(HedgerowError):
    """
    The upstream gave no usable answer.

    *kind* says how: `connect` (nobody listens there), `timeout` (too slow to connect, to read, to answer or
    to go on), `broken` (closed early or spoke nonsense), `busy` (every connection is taken, and the queue is
    full or too slow).
    """

    def __init__(self, kind: UpstreamFault, message: str) -> None:
        self.kind: UpstreamFault = kind
        super().__init__(message)
