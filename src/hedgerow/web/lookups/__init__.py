"""
Lookups: DNS and HTTP queries about bots, made in a background thread and never on the request path.

Tests: `tests/web/lookups/`.
"""
