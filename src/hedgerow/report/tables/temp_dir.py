"""Place: a directory for what does not fit into memory, which goes away whenever the process is interrupted."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from pathlib import Path

from hedgerow.errors import StoreError


class TempDir:
    """
    A directory of its own in *directory*, or in the system's place for such. To be closed: then it is gone.

    What takes it away is there before it is: of Python's own, one is left behind if Ctrl-C comes in between.
    """

    def __init__(self, directory: Path | None = None) -> None:
        try:
            self.path = (directory or Path(tempfile.gettempdir())) / f"hedgerow-report-{secrets.token_hex(8)}"
            self._leave = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise StoreError(f"no room for the tables: {error}; name another place by TMPDIR") from None

    def close(self) -> None:
        self._leave()
