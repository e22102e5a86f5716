"""
Policy: from evidence to a decision. Scores, thresholds, actions, blocks.

Never looks at a request and never stores anything; its rules come from `detectors.registry`. Called by the engine and
the watch. Tests: `tests/policy/`.
"""
