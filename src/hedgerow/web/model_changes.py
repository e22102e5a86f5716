"""Changes of the model bundles in use, by commands and by the dashboard."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hedgerow.errors import ModelError
from hedgerow.settings import Settings
from hedgerow.state.sqlite.journal import connect
from hedgerow.watch.models.bundle import ModelKind
from hedgerow.watch.models.panel import Panel
from hedgerow.watch.session_store import read_records
from hedgerow.web.paths import state_path
from hedgerow.web.watch import build_panel, model_files, response_to

KINDS: tuple[ModelKind, ...] = ("paths", "windows")
MIN_COMPARED = 200
"""Sessions on which a shadow is compared with the bundle in use before it may be promoted."""


def response_of(settings: Settings, kind: ModelKind) -> str:
    """Return what follows from findings of this kind; "off" if nothing is judged."""
    chosen = settings.watch.paths if kind == "paths" else settings.watch.windows
    return chosen if chosen == "off" else response_to(settings, chosen)


def stored_panels(settings: Settings) -> list[Panel]:
    """Return the panels of the settings, with the records that the watch has stored."""
    panels = [build_panel(settings, kind) for kind in KINDS if response_of(settings, kind) != "off"]
    path = state_path(settings)
    if settings.state.durable and path.is_file():
        with closing(connect(path)) as connection:
            records = read_records(connection)
        for panel in panels:
            for record in records:
                panel.restore(record)
    return panels


def promote_shadow(settings: Settings, kind: ModelKind, *, force: bool) -> Path:
    """Make the shadow the bundle in use. Raises ModelError if it was compared too little, unless forced."""
    named = settings.watch.model if kind == "paths" else settings.watch.window_model
    if named or settings.watch.shadow:
        raise ModelError("the settings name the bundles; change or empty model, window_model and shadow in [watch]")
    files = model_files(settings)
    if not force and files.shadow(kind).is_file():
        record = next((panel.record for panel in stored_panels(settings) if panel.kind == kind), None)
        count = record.sessions if record is not None else 0
        if count < MIN_COMPARED:
            raise ModelError(
                f"not promoted: the shadow was compared with the bundle in use on {count} sessions, {MIN_COMPARED} are"
                " needed; wait and see hedgerow models show, or use --force"
            )
    return files.promote(kind)
