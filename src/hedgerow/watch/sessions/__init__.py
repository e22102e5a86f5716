"""
Sessions: the last visits of one visitor, and the features that models classify them by.

Owns `PathSession` (PathMarker's sessions), `SessionWindow` (sliding window) and `LruDict`. Never does I/O. Called by
`watch`, `report` and `lab.train`. Tests: `tests/watch/sessions/`.
"""
