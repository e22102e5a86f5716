"""
Hedgerow around a Starlette application.

    uvicorn examples.starlette_app:app --no-proxy-headers
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from hedgerow.asgi import Hedgerow


async def index(request: Request) -> HTMLResponse:
    links = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>' for n in range(1, 21))
    return HTMLResponse(f"<!doctype html><title>Start</title><h1>Start</h1><ul>{links}</ul>")


async def page(request: Request) -> HTMLResponse:
    number = request.path_params["number"]
    return HTMLResponse(f'<!doctype html><title>{number}</title><p>Page {number}. <a href="/">Back</a>.</p>')


async def api(request: Request) -> JSONResponse:
    # What Hedgerow knows about this request: request.scope["hedgerow"]["visit"].
    return JSONResponse({"visitor": request.scope["hedgerow"]["visit"].visitor})


app = Hedgerow(Starlette(routes=[Route("/", index), Route("/page/{number:int}", page), Route("/api", api)]))
