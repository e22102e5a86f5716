"""
Web: Hedgerow around an application: middleware, response rewriting, refusal and challenge pages, the admin listener.

Builds everything from settings (`app`). Acts on decisions and never makes them. Called by
`hedgerow.asgi`, `hedgerow.wsgi`, `proxy`, `services` and `cli`. Tests: `tests/web/`.
"""
