"""
The dashboard as an ASGI application: pages, tables, changes, live updates, the API and its OpenAPI document.

`web.admin` has checked who asks, and puts the `User` into the scope.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from hedgerow import __version__
from hedgerow.errors import HedgerowError, SettingsError, StoreError
from hedgerow.web.admin.access import Refused, User, check_form, read_form
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Scope
from hedgerow.web.audit import AuditLog
from hedgerow.web.dashboard import openapi
from hedgerow.web.dashboard.jobs import Jobs
from hedgerow.web.dashboard.page import Action, Context, Page, Problem
from hedgerow.web.dashboard.pages import PAGES, reports
from hedgerow.web.dashboard.resources import RESOURCES
from hedgerow.web.dashboard.snapshot import Snapshots
from hedgerow.web.dashboard.tables import TablePage, write_csv
from hedgerow.web.health import Health
from hedgerow.web.siblings import read_all

_FOLDER = Path(str(files("hedgerow.data"))) / "dashboard"
_JSON = "application/json"
_LIVE_EVERY = 2.0
_MAX_STREAMS = 20
_SEE_OTHER = 303


_SCHEDULE_EVERY = 20.0
_DOCUMENT_CSP = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""A document has scripts of its own and texts that visitors chose: it gets no access to the operator's session."""


class Dashboard:
    """Answers requests of operators for *site*."""

    def __init__(self, site: Site, health: Health) -> None:
        self._site = site
        self._health = health
        self._audit = AuditLog(site.app.settings)
        self._streams = 0
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {"time": _time, "count": _count, "duration": _duration, "path": quote}
        self._templates.globals |= {"query_string": _query_string, "json_of": _json_of}
        self._jobs = Jobs()
        self._snapshots = Snapshots(partial(read_all, site))
        self._document = msgspec.json.encode(openapi.document((*PAGES, *RESOURCES)))
        with suppress(OSError):
            reports.remove_old(site.app.settings, time.time())
        if site.app.settings.admin.report_every:
            threading.Thread(target=self._make_reports, name="hedgerow-reports", daemon=True).start()
        self.app = Starlette(routes=self._routes(), exception_handlers={Refused: _refused, HTTPException: _unknown})

    def _make_reports(self) -> None:
        """Make the reports that the settings want, until the site is closed."""
        while not self._site.closed:
            with suppress(OSError):
                reports.make_if_due(self._site.app.settings, self._jobs, time.time())
            time.sleep(_SCHEDULE_EVERY)

    def login_page(self, scope: Scope, text: str) -> bytes:
        """Return the form to log in, with what is wrong with the last try."""
        own = self._site.app.settings.admin
        template = self._templates.get_template("login.html")
        query = scope["query_string"].decode("latin-1")
        asked = scope.get("hedgerow.root", "") + scope["path"] + (f"?{query}" if query else "")
        back = asked if scope["method"] == "GET" else "/"
        return template.render(text=text, has_users=bool(own.users), back=back).encode()

    def _routes(self) -> list[BaseRoute]:
        routes: list[BaseRoute] = [
            Mount("/static", StaticFiles(directory=_FOLDER / "static")),
            Route(f"{openapi.API}/openapi.json", self._openapi),
            Route("/", self._html(PAGES[0])),
            Route("/dashboard/now/live", self._live),
            *(Route(f"{openapi.API}/{resource.name}", self._api(resource, health=False)) for resource in RESOURCES),
        ]
        for page in PAGES:
            routes.append(Route(f"/dashboard/{page.name}", self._html(page)))
            routes.append(Route(f"{openapi.API}/{page.name}", self._api(page)))
            if page.document is not None:
                show = self._show_document(page)
                routes += [
                    Route(f"{above}/{page.name}/document/{{file}}", show) for above in ("/dashboard", openapi.API)
                ]
            for action in page.actions:
                routes.append(
                    Route(f"/dashboard/{page.name}/{action.name}", self._form(page, action), methods=["POST"])
                )
                changing = self._change(page, action)
                routes.append(Route(f"{openapi.API}/{page.name}/{action.name}", changing, methods=["POST"]))
        return routes

    # ---- Reading

    def _html(self, page: Page) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            status, error, result = 200, "", None
            context = await self._context(request)
            given = dict(request.query_params)
            message = given.pop("done", "")
            parameters = None
            try:
                parameters = _convert(given, page.parameters)
                result = await asyncio.to_thread(page.query, context, parameters)
            except (Problem, HedgerowError, ValueError) as failed:
                status, error = _status(failed), str(failed)
                if not _required(page):
                    # The page as it is without what was asked for, such as the form with a reference that is wrong.
                    parameters = parameters or page.parameters()
                    with suppress(Problem, HedgerowError, ValueError):
                        result = await asyncio.to_thread(page.query, context, page.parameters())
            body = await asyncio.to_thread(
                self._render, page, context, parameters=parameters, result=result, error=error, message=message,
            )  # fmt: skip
            return Response(body, status, media_type="text/html")

        return answer

    def _render(self, page: Page, context: Context, back: str = "", **values: Any) -> str:
        """Return a page, or if there is no result its error, with a link *back*."""
        template = self._templates.get_template(f"{page.name}.html" if values["result"] is not None else "error.html")
        return template.render(
            page=page, pages=PAGES, user=context.user, now=context.now, problems=context.problems,
            observing=bool(context.settings.observe), needs_login=context.settings.admin.needs_login,
            version=__version__, upstream=context.settings.proxy.upstream,
            attack_until=context.site.attack_until(context.now), root=context.root, sites=context.sites,
            site_name=context.site_name, back=back or ("/" if _required(page) else f"/dashboard/{page.name}"), **values,
        )  # fmt: skip

    def _api(self, page: Page, *, health: bool = True) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                parameters = msgspec.convert(dict(request.query_params), page.parameters, strict=False)
                context = await self._context(request, health=health)
                result = await asyncio.to_thread(page.query, context, parameters)
            except (Problem, HedgerowError, ValueError) as failed:
                return _error(failed)
            if isinstance(result, TablePage) and getattr(parameters, "format", "json") == "csv":
                name = {"content-disposition": f'attachment; filename="hedgerow-{page.name}.csv"'}
                return StreamingResponse(write_csv(result.rows, page.columns), media_type="text/csv", headers=name)
            return Response(await asyncio.to_thread(msgspec.json.encode, result), media_type=_JSON)

        return answer

    def _show_document(self, page: Page) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            assert page.document is not None
            try:
                body = await asyncio.to_thread(
                    page.document, await self._context(request), request.path_params["file"]
                )  # fmt: skip
            except (Problem, HedgerowError) as failed:
                return _error(failed)
            return Response(body, media_type="text/html", headers={"content-security-policy": _DOCUMENT_CSP})

        return answer

    async def _openapi(self, _: Request) -> Response:
        return Response(self._document, media_type=_JSON)

    async def _live(self, request: Request) -> Response:
        """Send the page *Now* again and again, as server-sent events."""
        if self._streams >= _MAX_STREAMS:
            return Response("Too many pages are open.\n", 503)
        context = await self._context(request)
        try:
            parameters = _convert(dict(request.query_params), PAGES[0].parameters)
        except ValueError as failed:
            return _error(failed)
        return StreamingResponse(self._events(request, context.user, parameters), media_type="text/event-stream")

    async def _events(self, request: Request, user: User, parameters: Any) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            may_see = request.scope["hedgerow.may_see"]
            # Whoever has logged out gets no more, nor does a session that has expired.
            while not (self._site.closing or self._site.closed or await request.is_disconnected()) and may_see():
                with suppress(HedgerowError):
                    context = await self._context(request)
                    result = await asyncio.to_thread(PAGES[0].query, context, parameters)
                    html, sentence = [
                        await asyncio.to_thread(
                            self._templates.get_template(name).render, result=result, user=user, now=context.now,
                            root=context.root,
                        )
                        for name in ("now_live.html", "now_sentence.html")
                    ]  # fmt: skip
                    data = msgspec.json.encode({"html": html, "sentence": sentence, "series": result.series})
                    yield b"data: " + data + b"\n\n"
                for _ in range(int(_LIVE_EVERY * 2)):
                    if not (self._site.closing or self._site.closed):
                        await asyncio.sleep(0.5)
        finally:
            self._streams -= 1

    # ---- Changing

    def _form(self, page: Page, action: Action) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            form = {name: values[0] for name, values in (await read_form(request.receive)).items()}
            user = _user(request)
            check_form(user, request.scope, form.pop("form_token", ""))
            back = form.pop("back", f"/dashboard/{page.name}")
            if not back.startswith("/") or back.startswith(("//", "/\\")):
                back = f"/dashboard/{page.name}"
            try:
                fields = _convert(form, action.request)
                done = await self._run(page, action, await self._context(request), fields)
            except (Problem, HedgerowError, ValueError) as failed:
                context = await self._context(request)
                names = [name for name in _required(page) if name in form]
                shown = f"/dashboard/{page.name}?{urlencode({name: form[name] for name in names})}" if names else ""
                body = self._render(page, context, shown, parameters=None, result=None, error=str(failed), message="")
                return Response(body, _status(failed), media_type="text/html")
            target = done.location or back
            joined = "&" if "?" in target else "?"
            return RedirectResponse(f"{target}{joined}{urlencode({'done': done.message})}", _SEE_OTHER)

        return answer

    def _change(self, page: Page, action: Action) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            check_form(_user(request), request.scope, request.headers.get("x-form-token", ""))
            try:
                body = await _json_body(request, action.max_body)
                fields = await asyncio.to_thread(msgspec.json.decode, body, type=action.request)
                done = await self._run(page, action, await self._context(request, health=False), fields)
            except (Problem, HedgerowError, ValueError) as failed:
                return _error(failed)
            return Response(msgspec.json.encode(done), media_type=_JSON)

        return answer

    async def _run(self, page: Page, action: Action, context: Context, fields: Any) -> Any:
        if not context.user.may_change:
            raise Problem(403, "A viewer cannot change anything.")
        try:
            done = await asyncio.to_thread(action.run, context, fields)
        finally:
            self._snapshots.forget()
        user, change = context.user, f"{page.name}.{action.name}"
        await asyncio.to_thread(self._audit.add, user.name, user.address, change, done.subject, done.message)
        return done

    async def _context(self, request: Request, *, health: bool = True) -> Context:
        """Return what a query sees. Without *health* it does not wait until the site answers or is given up."""
        problems = await self._health.problems() if health else {}
        scope = request.scope
        return Context(
            self._site, _user(request), time.time(), self._audit, problems, self._jobs, self._snapshots,
            root=scope.get("hedgerow.root", ""), sites=scope.get("hedgerow.sites", ()),
            site_name=scope.get("hedgerow.site", ""),
        )  # fmt: skip


def _user(request: Request) -> User:
    user = request.scope["hedgerow.user"]
    if not isinstance(user, User):
        raise Refused(401, "Log in.", login=True)
    return user


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    if request.url.path.startswith(openapi.API):
        return Response(msgspec.json.encode({"error": error.text}), error.status, media_type=_JSON)
    return Response(f"{error.text}\n", error.status, media_type="text/plain")


async def _unknown(request: Request, error: Exception) -> Response:
    """Answer a request for an address that there is not, or by another method."""
    assert isinstance(error, HTTPException)
    if request.url.path.startswith(openapi.API):
        body = msgspec.json.encode({"error": f"{error.detail}: see {openapi.API}/openapi.json."})
        return Response(body, error.status_code, error.headers, media_type=_JSON)
    return Response(f"{error.detail}\n", error.status_code, error.headers, media_type="text/plain")


def _required(page: Page) -> Sequence[str]:
    """Return the parameters without which there is no such page."""
    return [field.name for field in msgspec.structs.fields(page.parameters) if field.required]


def _convert(given: Mapping[str, Any], wanted: type[msgspec.Struct]) -> Any:
    """Convert texts of a query string or form. Empty ones count as not given."""
    return msgspec.convert({name: value for name, value in given.items() if value != ""}, wanted, strict=False)


def _status(failed: Exception) -> int:
    """Return 400 for what no schema allows, 422 for a text that means nothing, and 409 for what is not possible now."""
    match failed:
        case Problem():
            return failed.status
        case StoreError():
            return 503
        case msgspec.MsgspecError():
            return 400
        case ValueError() | SettingsError():
            return 422
    return 409


def _error(failed: Exception) -> Response:
    return Response(msgspec.json.encode({"error": str(failed)}), _status(failed), media_type=_JSON)


async def _json_body(request: Request, most: int) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise Problem(415, f"Send {_JSON}.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise Problem(413, f"At most {most:,} bytes.")
    return body


def _query_string(parameters: Any, **changes: Any) -> str:
    """Return the query string of a table with some parameters changed; those with their default are left out."""
    fields = msgspec.structs.fields(parameters)
    values = {field.name: changes.get(field.name, getattr(parameters, field.name)) for field in fields}
    return "?" + urlencode({field.name: values[field.name] for field in fields if values[field.name] != field.default})


def _json_of(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _time(at: float | None) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}" if at else ""


def _count(number: float) -> str:
    return f"{number:,}"


def _duration(seconds: float) -> str:
    """
    Return a duration in its largest unit.

    >>> _duration(30), _duration(600), _duration(7300), _duration(200_000)
    ('1 min', '10 min', '2 h', '2 d')
    """
    if seconds < 7200:  # noqa: PLR2004 - two hours
        return f"{max(1, round(seconds / 60))} min"
    return f"{round(seconds / 3600)} h" if seconds < 172_800 else f"{round(seconds / 86_400)} d"  # noqa: PLR2004
