"""
The files of a site's own bundles, below its state directory.

For each kind (`paths`, `windows`) there may be a current bundle, a shadow, and the previous bundle. Files are replaced
atomically.
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.errors import ModelError
from hedgerow.watch.models.bundle import Bundle, encoded, load
from hedgerow.watch.models.panel import ModelKind


def kind_of(bundle: Bundle) -> ModelKind:
    return "windows" if bundle.input == "window" else "paths"


class ModelFiles:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def current(self, kind: ModelKind) -> Path:
        return self.directory / f"{kind}.json"

    def shadow(self, kind: ModelKind) -> Path:
        return self.directory / f"{kind}-shadow.json"

    def before(self, kind: ModelKind) -> Path:
        return self.directory / f"{kind}-before.json"

    def put_shadow(self, bundle: Bundle) -> Path:
        path = self.shadow(kind_of(bundle))
        new_file = path.with_suffix(".new")
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            new_file.write_bytes(encoded(bundle))
            new_file.replace(path)
        except OSError as error:
            raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None
        return path

    def promote(self, kind: ModelKind) -> Path:
        """Make the shadow the current bundle. The current one becomes the previous one."""
        shadow, current = self.shadow(kind), self.current(kind)
        if not shadow.is_file():
            raise ModelError(f"there is no shadow bundle for {kind}; hedgerow train creates one")
        if kind_of(load(shadow)) != kind:
            raise ModelError(f"{str(shadow)!r} is not a bundle for {kind}")
        try:
            if current.is_file():
                current.replace(self.before(kind))
            shadow.replace(current)
        except OSError as error:
            raise ModelError(f"{str(shadow)!r} cannot be moved: {error.strerror}") from None
        return current

    def go_back(self, kind: ModelKind) -> None:
        """
        Make the previous bundle current again, or the one of the package if there is none.

        The bundle that was current becomes the shadow.
        """
        before, current, shadow = self.before(kind), self.current(kind), self.shadow(kind)
        if not current.is_file():
            raise ModelError(f"nothing was promoted: the bundle that comes with Hedgerow is in use for {kind}")
        try:
            current.replace(shadow)
            if before.is_file():
                before.replace(current)
        except OSError as error:
            raise ModelError(f"{str(current)!r} cannot be moved: {error.strerror}") from None

    def drop_shadow(self, kind: ModelKind) -> None:
        if not self.shadow(kind).is_file():
            raise ModelError(f"there is no shadow bundle for {kind}")
        try:
            self.shadow(kind).unlink()
        except OSError as error:
            raise ModelError(f"{str(self.shadow(kind))!r} cannot be removed: {error.strerror}") from None
