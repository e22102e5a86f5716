"""
Policy: from evidence to decision.

Knows the thresholds, in one place, and for how long a crawler is blocked. Never looks at a request for evidence of its
own and never acts. Called by the engine. Tests: `tests/policy/`.
"""
