"""From settings to the watch and its models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from hedgerow.core.decision import ScoreUpdate
from hedgerow.corrupt_files import set_aside
from hedgerow.errors import ModelError
from hedgerow.policy.decision_policy import DecisionPolicy
from hedgerow.settings import Settings
from hedgerow.watch.link_sharing import LinkSharing, SharingLimits
from hedgerow.watch.models.bundle import SHIPPED, Bundle, ModelFiles, ModelKind, kind_of, load, shipped
from hedgerow.watch.models.panel import Panel
from hedgerow.watch.session_store import SqliteSessions
from hedgerow.watch.sessions.path import PathLengths
from hedgerow.watch.sessions.window import WindowLengths
from hedgerow.watch.watch import Response, Watch
from hedgerow.web.gate import build_rules
from hedgerow.web.paths import state_directory, state_path

Panels = tuple[Panel | None, Panel | None]
"""The models of paths and of windows; None if the settings switch them off."""
_SETTING_OF: dict[ModelKind, str] = {"paths": "model", "windows": "window_model"}


def build_watch(settings: Settings, policy: DecisionPolicy, update_score: Callable[[ScoreUpdate], None]) -> Watch:
    watch = Watch(policy, update_score, max_sessions=settings.watch.sessions)
    configure_watch(watch, settings, policy, build_panels(settings))
    return watch


def configure_watch(watch: Watch, settings: Settings, policy: DecisionPolicy, panels: Panels) -> None:
    """Apply settings and models to a watch, which keeps its sessions and records."""
    own = settings.campaigns
    limits = msgspec.convert(own, SharingLimits, from_attributes=True)
    if not own.enabled:
        watch.sharing = None
    elif watch.sharing is None:
        watch.sharing = LinkSharing(limits)
    else:
        watch.sharing.limits = limits
    watch.policy = policy
    watch.on_campaign = own.response
    watch.observe = bool(settings.observe)
    rules = build_rules(settings)
    watch.is_marked = (lambda target: rules.mode_of(target) != "off") if rules.marks else None
    watch.set_lengths(*session_lengths(settings))
    known = watch.records()
    watch.paths, watch.windows = panels
    watch.on_path = response_to(settings, settings.watch.paths)
    watch.on_window = response_to(settings, settings.watch.windows)
    for panel in watch.panels:
        for record in known:
            panel.restore(record)


def response_to(settings: Settings, chosen: Literal["auto", "challenge", "record", "off"]) -> Response:
    """Return what a recognised visitor gets. Where browsers obtain no clearance, a challenge would disturb people."""
    if chosen == "auto":
        return "challenge" if settings.clears_silently else "record"
    return "record" if chosen == "off" else chosen


def build_panels(settings: Settings) -> Panels:
    """Load the models that the settings ask for; ModelError if one cannot be used."""
    own = settings.watch
    paths = build_panel(settings, "paths") if own.paths != "off" else None
    return paths, build_panel(settings, "windows") if own.windows != "off" else None


def session_lengths(settings: Settings) -> tuple[PathLengths, WindowLengths]:
    own = settings.watch
    paths = PathLengths(own.long_session, own.short_session_gap, own.judge_at)
    return paths, WindowLengths(own.window_min, own.window_max)


def build_panel(settings: Settings, kind: ModelKind) -> Panel:
    """
    Load the model in use and its shadow, which is tried out beside it. ModelError if one cannot be used.

    A shadow for other lengths of sessions is left out: it could not be compared.
    """
    shadow = _shadow(settings, kind)
    if shadow is not None and shadow.misfit(*session_lengths(settings)):
        shadow = None
    return Panel(kind, bundle_in_use(settings, kind), shadow)


def bundle_in_use(settings: Settings, kind: ModelKind) -> Bundle:
    """Return the model that the settings name, else the site's own, else the one that comes with Hedgerow."""
    own, files = settings.watch, model_files(settings)
    named = own.model if kind == "paths" else own.window_model
    if named in SHIPPED:
        bundle, where = shipped(named), named
    else:
        in_use = Path(named).expanduser() if named else files.current(kind)
        own_bundle = load(in_use) if named else _load_own(in_use)
        bundle = own_bundle or _shipped(kind)
        where = bundle.name if own_bundle is None else str(in_use)
    if (judges := kind_of(bundle)) != kind:
        raise ModelError(f"{where!r} judges {judges}, not {kind}; set it as {_SETTING_OF[judges]}")
    if misfit := bundle.misfit(*session_lengths(settings)):
        raise ModelError(
            f"the model {where!r} was trained for {misfit}; change the lengths in [watch] back, or set {kind} to "
            '"off", run hedgerow train with these settings and then hedgerow models promote'
        )
    return bundle


def _shadow(settings: Settings, kind: ModelKind) -> Bundle | None:
    own, path = settings.watch, model_files(settings).shadow(kind)
    if own.shadow:
        named = shipped(own.shadow) if own.shadow in SHIPPED else load(Path(own.shadow).expanduser())
        if kind_of(named) == kind:
            return named
    return _load_own(path)


def _load_own(path: Path) -> Bundle | None:
    """Load a model of the site's own directory, if there is one. A corrupt one is set aside."""
    if not path.is_file():
        return None
    try:
        return load(path)
    except ModelError as error:
        set_aside(path, "the model", error)
        return None


@cache
def _shipped(kind: ModelKind) -> Bundle:
    return load(None) if kind == "paths" else shipped("window")


def model_files(settings: Settings) -> ModelFiles:
    """Return the directory of the site's own models."""
    return ModelFiles(state_directory(settings) / "models")


def build_sessions(settings: Settings) -> SqliteSessions | None:
    """Build the store of pending sessions over a restart; None if the state is not durable."""
    return SqliteSessions(state_path(settings)) if settings.state.durable else None
