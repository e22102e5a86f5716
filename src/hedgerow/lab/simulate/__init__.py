"""
Simulate: what marked links cost a crawler that has not been detected (PathMarker 2019, figures 6 and 7).

Owns random sites and crawlers on them (`crawl`), the paper's two measurements (`suppression`) and their plot
(`plot`). Never uses the clock, files, a real site or unseeded random numbers: the same seed gives the same bytes.
Called by `cli` only. Tests: `tests/lab/simulate/`.
"""
