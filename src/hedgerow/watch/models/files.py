"""
The shelf: where a site's own bundles are, below its state directory.

For each kind (`paths`, `windows`) there may be one in use, one in its shadow, and the one that was in use before. A
bundle is put there whole or not at all.
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.errors import ModelError
from hedgerow.watch.models.bundle import Bundle, encoded, load
from hedgerow.watch.models.panel import ModelKind


def kind_of(bundle: Bundle) -> ModelKind:
    """What a bundle judges."""
    return "windows" if bundle.input == "window" else "paths"


class ModelFiles:
    """The bundles below *directory*."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def current(self, kind: ModelKind) -> Path:
        """Where the bundle in use is, if the site has one of its own."""
        return self.directory / f"{kind}.json"

    def shadow(self, kind: ModelKind) -> Path:
        """Where the bundle is that runs in the shadow, if there is one."""
        return self.directory / f"{kind}-shadow.json"

    def before(self, kind: ModelKind) -> Path:
        """Where the bundle is that was in use before the last promotion."""
        return self.directory / f"{kind}-before.json"

    def put_shadow(self, bundle: Bundle) -> Path:
        """Put a new bundle into the shadow of the one in use."""
        path = self.shadow(kind_of(bundle))
        fresh = path.with_suffix(".new")
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_bytes(encoded(bundle))
            fresh.replace(path)
        except OSError as error:
            raise ModelError(f"{str(path)!r} cannot be written: {error.strerror}") from None
        return path

    def promote(self, kind: ModelKind) -> Path:
        """Have the bundle in the shadow be the one in use; what was in use is kept as the one before."""
        shadow, current = self.shadow(kind), self.current(kind)
        if not shadow.is_file():
            raise ModelError(f"no bundle of {kind} is in the shadow; hedgerow train puts one there")
        if kind_of(load(shadow)) != kind:
            raise ModelError(f"{str(shadow)!r} does not judge {kind}")
        try:
            if current.is_file():
                current.replace(self.before(kind))
            shadow.replace(current)
        except OSError as error:
            raise ModelError(f"{str(shadow)!r} cannot be moved: {error.strerror}") from None
        return current

    def go_back(self, kind: ModelKind) -> None:
        """
        Have the bundle be in use again that was so before the last promotion; without one, that of Hedgerow.

        The one that was in use goes back into the shadow.
        """
        before, current, shadow = self.before(kind), self.current(kind), self.shadow(kind)
        if not current.is_file():
            raise ModelError(f"nothing was promoted: the {kind} are judged by the bundle that comes with Hedgerow")
        try:
            current.replace(shadow)
            if before.is_file():
                before.replace(current)
        except OSError as error:
            raise ModelError(f"{str(current)!r} cannot be moved: {error.strerror}") from None

    def drop_shadow(self, kind: ModelKind) -> None:
        """Have no bundle in the shadow."""
        if not self.shadow(kind).is_file():
            raise ModelError(f"no bundle of {kind} is in the shadow")
        try:
            self.shadow(kind).unlink()
        except OSError as error:
            raise ModelError(f"{str(self.shadow(kind))!r} cannot be removed: {error.strerror}") from None
