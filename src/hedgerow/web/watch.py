"""From settings to the watch and its models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hedgerow.core.decision import ScoreUpdate
from hedgerow.errors import ModelError
from hedgerow.policy.decision_policy import DecisionPolicy
from hedgerow.settings import Settings
from hedgerow.watch.link_sharing import LinkSharing, SharingLimits
from hedgerow.watch.models.bundle import Bundle, load, shipped
from hedgerow.watch.models.files import ModelFiles, kind_of
from hedgerow.watch.models.panel import ModelKind, Panel
from hedgerow.watch.session_store import SqliteSessions
from hedgerow.watch.watch import Watch
from hedgerow.web.paths import state_directory, state_path

_SETTING_OF: dict[ModelKind, str] = {"paths": "model", "windows": "window_model"}


class Panels(NamedTuple):
    """The models in use: of paths and of windows, None where the settings switch them off."""

    paths: Panel | None
    windows: Panel | None


def build_watch(settings: Settings, policy: DecisionPolicy, update_score: Callable[[ScoreUpdate], None]) -> Watch:
    watch = Watch(policy, update_score, most_sessions=settings.watch.sessions)
    configure_watch(watch, settings, policy, build_panels(settings))
    return watch


def configure_watch(watch: Watch, settings: Settings, policy: DecisionPolicy, panels: Panels) -> None:
    """Have a watch go on under these settings and with these models; what it knows stays."""
    own = settings.campaigns
    limits = SharingLimits(own.members, own.links, own.share, own.chance, half_life=own.half_life)
    if not own.enabled:
        watch.sharing = None
    elif watch.sharing is None:
        watch.sharing = LinkSharing(limits)
    else:
        watch.sharing.limits = limits
    watch.policy = policy
    watch.on_campaign = own.response
    watch.observe = settings.observe
    known = watch.records()
    watch.paths, watch.windows = panels
    paths, windows = settings.watch.paths, settings.watch.windows
    watch.on_path = paths if paths != "off" else "record"
    watch.on_window = windows if windows != "off" else "record"
    for panel in watch.panels:
        for record in known:
            panel.restore(record)


def build_panels(settings: Settings) -> Panels:
    """Load the models that the settings ask for; ModelError where one cannot be used."""
    paths, windows = settings.watch.paths, settings.watch.windows
    return Panels(
        build_panel(settings, "paths") if paths != "off" else None,
        build_panel(settings, "windows") if windows != "off" else None,
    )


def build_panel(settings: Settings, kind: ModelKind) -> Panel:
    """
    Load the model in use and the one that is tried out in its shadow.

    In use is the one that the settings name, else the site's own, else the one that comes with Hedgerow.
    """
    own, files = settings.watch, model_files(settings)
    named = own.model if kind == "paths" else own.window_model
    in_use = Path(named).expanduser() if named else files.current(kind)
    bundle = load(in_use) if named or in_use.is_file() else _shipped(kind)
    if (judges := kind_of(bundle)) != kind:
        raise ModelError(f"{str(in_use)!r} judges {judges}, not {kind}; set it as {_SETTING_OF[judges]}")
    shadow_path = files.shadow(kind)
    shadow = load(shadow_path) if shadow_path.is_file() else None
    if own.shadow and kind_of(named_shadow := load(Path(own.shadow).expanduser())) == kind:
        shadow = named_shadow
    return Panel(kind, bundle, shadow)


@cache
def _shipped(kind: ModelKind) -> Bundle:
    return load(None) if kind == "paths" else shipped("window")


def model_files(settings: Settings) -> ModelFiles:
    """Return the directory of the site's own models."""
    return ModelFiles(state_directory(settings) / "models")


def build_sessions(settings: Settings) -> SqliteSessions | None:
    """Build what keeps pending sessions over a restart; None if nothing is kept."""
    return SqliteSessions(state_path(settings)) if settings.state.durable else None
