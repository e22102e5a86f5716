"""
Proxy: the reverse proxy, its HTTP server with limits and deadlines, its upstream client, and worker processes.

Owns the bytes on both connections of a request. Never decides: it is an ASGI application that `web.asgi` wraps. Called
by `hedgerow protect` and `hedgerow serve`. Tests: `tests/proxy/`.
"""
