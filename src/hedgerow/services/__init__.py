"""
Services: decisions for other servers: forward-auth, HAProxy's SPOE, and ban-list server and client.

Never serves the site itself. Called by `hedgerow serve` and `hedgerow client`. Tests: `tests/services/`.
"""
