"""`service`: which service answers, so that a command does not act on another one."""

from __future__ import annotations

from hedgerow import __version__
from hedgerow.web.dashboard.page import Context, Empty, Page
from hedgerow.web.dashboard.resource_types import Service
from hedgerow.web.paths import state_directory


def query(context: Context, _: Empty) -> Service:
    settings = context.settings
    return Service(__version__, str(state_directory(settings).absolute()), bool(settings.observe))


RESOURCE = Page(
    name="service",
    title="Service",
    summary="The version and the state directory of the service, and whether it only observes.",
    query=query,
    result=Service,
    in_navigation=False,
)
