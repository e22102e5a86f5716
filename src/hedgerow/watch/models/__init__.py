"""
Models: from a session's features to a visitor's identity, in plain Python.

Owns the bundle format, inference, drift detection and the comparison with a shadow bundle. Never trains (`lab.train`
does) and never executes code from a bundle. Called by `watch`, `report` and `cli`. Tests: `tests/watch/models/`.
"""
