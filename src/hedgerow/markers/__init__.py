"""
Markers: what rewritten links carry, and how the links of a page are found, resolved, sealed and put back.

Owns tokens and keys in memory (`token`), marking rules (`rules`), the rewriting of a page (`rewrite`) and the HTML
scanner (`html/`). Never decides what a marker means: that is `detectors.marker_integrity`. Called by `web` and by
`hedgerow mark`. Tests: `tests/markers/`.
"""
