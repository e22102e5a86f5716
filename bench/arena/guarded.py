"""
A FastAPI application with fastapi-guard that passes on what it lets through. It runs in the arena's environment.

`python guarded.py PORT UPSTREAM`. Rate limit and bans are those of fastapi-guard's README: 100 requests in 60 seconds
from one address, five suspicious requests for a ban. Some of its searches for attacks are off, as they fit no site of
the arena: they take referrers on loopback for attempts to reach internal servers, and PHP addresses for probes.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from guard import SecurityConfig, SecurityMiddleware  # type: ignore[import-not-found]

_UNFIT = {"ssrf", "cms_probing", "recon", "sensitive_file"}
_NOT_PASSED_ON = {"content-length", "content-encoding", "transfer-encoding", "connection", "date", "server"}


def application(upstream: str) -> FastAPI:
    client = httpx.AsyncClient(base_url=upstream, trust_env=False, timeout=60)

    @asynccontextmanager
    async def closing(_: FastAPI) -> AsyncIterator[None]:
        yield
        await client.aclose()

    categories = SecurityConfig.model_fields["enabled_detection_categories"].get_default(call_default_factory=True)
    app = FastAPI(lifespan=closing, openapi_url=None)
    app.add_middleware(
        SecurityMiddleware,
        config=SecurityConfig(
            enable_redis=False,
            rate_limit=100,
            rate_limit_window=60,
            auto_ban_threshold=5,
            auto_ban_duration=86_400,
            enabled_detection_categories=frozenset(categories) - _UNFIT,
        ),
    )

    @app.api_route("/{path:path}", methods=["GET", "HEAD", "POST"])
    async def pass_on(request: Request, path: str) -> Response:  # noqa: ARG001 - the target has its query, too
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {
            name: value for name, value in request.headers.items() if name not in {"connection", "content-length"}
        }
        headers["x-forwarded-for"] = request.client.host if request.client else ""
        answer = await client.request(request.method, target, headers=headers, content=await request.body())
        kept = {name: value for name, value in answer.headers.items() if name not in _NOT_PASSED_ON}
        return Response(answer.content, answer.status_code, kept)

    return app


if __name__ == "__main__":
    uvicorn.run(
        application(f"http://127.0.0.1:{sys.argv[2]}"), host="127.0.0.1", port=int(sys.argv[1]), log_level="error"
    )
