"""
Models: from a session's features to what a visitor is held to be. Plain Python; training is in `lab.train`.

Tests: `tests/watch/models/`.
"""
