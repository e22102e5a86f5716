"""
Hedgerow around a FastAPI application, with accounts.

    uvicorn examples.fastapi_app:app --no-proxy-headers

Logged-in people are identified by their account instead of their address, so an office behind one address counts as
many visitors. Here the account comes from a signed cookie that the application can verify.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from http.cookies import SimpleCookie

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse

from hedgerow.asgi import Hedgerow

SECRET = b"change me"

api = FastAPI()


def sign(name: str) -> str:
    return f"{name}.{hmac.new(SECRET, name.encode(), hashlib.sha256).hexdigest()}"


def account_of(headers: Mapping[str, str]) -> str | None:
    """Return the account of a request, or None. Only a cookie that we signed is accepted."""
    cookie = SimpleCookie(headers.get("cookie", "")).get("account")
    if cookie is None:
        return None
    name = cookie.value.partition(".")[0]
    return name if hmac.compare_digest(cookie.value, sign(name)) else None


@api.get("/", response_class=HTMLResponse)
def index() -> str:
    links = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>' for n in range(1, 21))
    return f"<!doctype html><title>Start</title><h1>Start</h1><ul>{links}</ul>"


@api.get("/page/{number}", response_class=HTMLResponse)
def page(number: int) -> str:
    return f'<!doctype html><title>{number}</title><p>Page {number}. <a href="/">Back</a> to the start.</p>'


@api.post("/login/{name}")
def login(name: str, response: Response) -> dict[str, str]:
    response.set_cookie("account", sign(name), httponly=True, samesite="lax")
    return {"account": name}


app = Hedgerow(api, account_of=account_of)
