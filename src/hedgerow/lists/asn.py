"""The network operator (AS number) of an address, from a MaxMind file such as `GeoLite2-ASN.mmdb`."""

from __future__ import annotations

from pathlib import Path

import maxminddb

from hedgerow.errors import StoreError
from hedgerow.lists.model import AsnOf

_FIELD = "autonomous_system_number"


class AsnFile:
    """A MaxMind file, opened on first use and again after it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[int, int, int] | None = None

    def changed(self) -> AsnOf | None:
        """Return the lookup function if the file is new or was replaced, else None."""
        try:
            status = self._path.stat()
            known = (status.st_ino, status.st_mtime_ns, status.st_size)
            if known == self._known:
                return None
            reader = maxminddb.open_database(self._path)
        except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
            raise StoreError(f"cannot read the file of network operators {self._path}: {error}") from None
        self._known = known

        def asn_of(address: str) -> int:
            try:
                record = reader.get(address)
            except (ValueError, maxminddb.InvalidDatabaseError):
                # The file may hold IPv4 networks only.
                return 0
            number = record.get(_FIELD) if isinstance(record, dict) else None
            return number if isinstance(number, int) else 0

        return asn_of
