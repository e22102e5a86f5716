"""
Policy: from evidence to decision.

Knows the thresholds, in one place, for how long a crawler is blocked, and whom the administrator lets in or keeps out
(`lists`, and `networks`, in which they are looked up). Never looks at a request for evidence of its own and never acts.
Called by the engine. Tests: `tests/policy/`.
"""
