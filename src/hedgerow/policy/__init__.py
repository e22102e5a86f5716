"""
Policy: from evidence to decision.

Knows the thresholds, in one place, for how long a crawler is blocked, and whom the administrator lets in or keeps out
(`lists`). Never looks at a request for evidence of its own and never acts. Called by the engine.
Tests: `tests/policy/`.
"""
