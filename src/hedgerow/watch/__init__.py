"""
Watch: looks at visits behind the fast path, in order for each visitor, and reports to the state what it finds.

Owns sessions, path and window models, link sharing and campaigns, and the ways visits reach a watch in a thread,
another process or through Redis. Never delays a request. Called by `web` and `hedgerow watch`. Tests: `tests/watch/`.
"""
