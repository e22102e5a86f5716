"""*Models*: the bundles in use, their results, how a shadow compares, and whether visitors have changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.watch.models.bundle import ModelKind
from hedgerow.watch.models.panel import MAJOR_DRIFT, MIN_SESSIONS, Panel
from hedgerow.web.dashboard.page import Action, Context, Done, Empty, Page
from hedgerow.web.model_changes import MIN_COMPARED, promote_shadow, response_of, stored_panels
from hedgerow.web.watch import model_files

_MAX_FEATURES = 12
_RESPONSES = {"record": "Findings are only recorded.", "challenge": "Visitors that are found have to earn a clearance."}


class Shadow(msgspec.Struct, frozen=True):
    """A bundle that is compared with the one in use. *flagged* and *flagged_by_shadow* are judgements "crawler"."""

    name: str
    judgements: int
    needed: int
    agreed: int
    flagged: int
    flagged_by_shadow: int


class Drift(msgspec.Struct, frozen=True):
    """How far a feature of visitors has moved from the training data: above 0.25 is far."""

    feature: str
    visits: int
    index: float
    is_far: bool


class Model(msgspec.Struct, frozen=True):
    kind: ModelKind
    bundle: str
    response: str
    people: str
    crawlers: str
    judged: dict[str, int]
    shadow: Shadow | None
    drift: list[Drift]
    warning: str
    can_go_back: bool


class Models(msgspec.Struct, frozen=True):
    models: list[Model]
    reloads: bool
    """Whether a change takes effect at once. A middleware has to be restarted."""


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: ModelKind


class Promotion(Choice, frozen=True, forbid_unknown_fields=True):
    """*force*: even if it was compared too little."""

    force: bool = False


def query(context: Context, _: Empty) -> Models:
    return Models([_model(context, panel) for panel in _panels(context)], context.site.request_reload is not None)


def _panels(context: Context) -> Sequence[Panel]:
    watch = context.site.watch
    return watch.watch.panels if watch is not None else stored_panels(context.settings)


def _model(context: Context, panel: Panel) -> Model:
    status = panel.status()
    compared = status["compared"]
    shadow = None
    if compared is not None:
        shadow = Shadow(
            compared["shadow"], compared["judgements"], MIN_COMPARED, compared["agreed"], compared["flagged"],
            compared["flagged_by_shadow"],
        )  # fmt: skip
    drift = [
        Drift(one["feature"], one["visits"], one["index"], one["index"] > MAJOR_DRIFT)
        for one in sorted(status["drift"], key=lambda one: -one["index"])
        if one["sessions"] >= MIN_SESSIONS
    ]
    provenance = panel.bundle.provenance
    return Model(
        kind=panel.kind,
        bundle=panel.bundle.name,
        response=_RESPONSES[response_of(context.settings, panel.kind)],
        people=str(provenance.get("people", "unknown")),
        crawlers=str(provenance.get("crawlers", "unknown")),
        judged=status["judged"],
        shadow=shadow,
        drift=drift[:_MAX_FEATURES],
        warning=status["warning"],
        can_go_back=model_files(context.settings).current(panel.kind).is_file(),
    )


def promote(context: Context, request: Promotion) -> Done:
    promote_shadow(context.settings, request.kind, force=request.force)
    return _done(context, f"The shadow now judges {request.kind}.", request)


def go_back(context: Context, request: Choice) -> Done:
    model_files(context.settings).go_back(request.kind)
    return _done(context, f"The previous bundle judges {request.kind} again.", request)


def drop(context: Context, request: Choice) -> Done:
    model_files(context.settings).drop_shadow(request.kind)
    return _done(context, f"The shadow for {request.kind} is removed.", request)


def _done(context: Context, message: str, request: Choice) -> Done:
    reload = context.site.request_reload
    if reload is None:
        return Done(f"{message} It takes effect when the application restarts.", request.kind)
    reload()
    return Done(message, request.kind)


PAGE = Page(
    name="models",
    title="Models",
    summary="The models of paths and windows, their shadows, and the drift of visitors.",
    query=query,
    result=Models,
    actions=(
        Action("promote", "Use the shadow from now on.", Promotion, promote),
        Action("back", "Use the previous bundle again.", Choice, go_back),
        Action("drop", "Remove the shadow.", Choice, drop),
    ),
)
