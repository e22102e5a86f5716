"""
Proxy: the reverse proxy: HTTP server with limits and deadlines, upstream client, worker processes.

Never decides: it is an ASGI application that `web.asgi` wraps. Called by `hedgerow protect` and `hedgerow serve`.
Tests: `tests/proxy/`.
"""
