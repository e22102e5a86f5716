"""
Policy: from evidence to a decision: scores, thresholds, actions, blocks.

Never looks at a request and never stores anything. Called by the engine and the watch. Tests: `tests/policy/`.
"""
