"""Which operator an address belongs to, from a MaxMind file (`GeoLite2-ASN.mmdb` and the like)."""

from __future__ import annotations

from pathlib import Path

import maxminddb

from hedgerow.errors import StoreError
from hedgerow.lists.model import AsnOf

_FIELD = "autonomous_system_number"


class AsnFile:
    """A file that is opened when it is first asked for, and again when it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[int, int, int] | None = None

    def changed(self) -> AsnOf | None:
        """How to ask the file, where it is another than the last time; else None."""
        try:
            found = self._path.stat()
            known = (found.st_ino, found.st_mtime_ns, found.st_size)
            if known == self._known:
                return None
            reader = maxminddb.open_database(self._path)
        except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
            raise StoreError(f"cannot read the file of operators {self._path}: {error}") from None
        self._known = known

        def asn_of(address: str) -> int:
            try:
                record = reader.get(address)
            except (ValueError, maxminddb.InvalidDatabaseError):
                # An IPv6 address in a file of IPv4 networks.
                return 0
            number = record.get(_FIELD) if isinstance(record, dict) else None
            return number if isinstance(number, int) else 0

        return asn_of
