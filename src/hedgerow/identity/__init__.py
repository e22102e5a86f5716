"""
Identity: who is asking.

Knows the client's address behind trusted proxies, the account in a cookie or header, bots and how they prove who they
are, what kind of request it is and what is odd about it. Never resolves a name (it asks `lookups` through a callable,
and remembers the answer), and never decides. Called by the gate for live requests and by `logs` for log lines. Tests:
`tests/identity/`.
"""
