"""
Lookups: DNS and HTTP questions about bots, asked in a background thread and never on the request path.

Tests: `tests/web/lookups/`.
"""
