"""
Identity: who is asking.

Knows the client's address behind trusted proxies, the account in a cookie or header, verified bots, and what kind of
request it is. Never resolves a name, keeps state or decides. Called by the gate for live requests and by `logs` for
log lines. Tests: `tests/identity/`.
"""
