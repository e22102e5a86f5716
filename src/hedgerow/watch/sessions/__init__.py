"""
Sessions: the last visits of one visitor, and the features that models judge them by.

Tests: `tests/watch/sessions/`.
"""
