"""
Markers: what rewritten links carry, and how links in a page are found, resolved, sealed and put back.

Owns tokens and keys in memory, marking rules, and the HTML scanner in `html/`. Never decides what a marker means: that
is `detectors.marker_integrity`. Called by `web` and by `hedgerow mark`. Tests: `tests/markers/`.
"""
