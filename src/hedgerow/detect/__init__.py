"""
Detectors, one file each: a visit and what is remembered about it go in, evidence comes out.

Each knows one way to tell a crawler. None decides, keeps state, or reads the clock. The engine calls them in the order
that `build.py` gives. Adding one touches a file here, a line in `build.py`, a test file in `tests/detect/` and an
entry in `docs/detectors.md`.
"""
