"""
Simulate: what marked links cost a crawler before anybody has noticed it (PathMarker 2019, figures 6 and 7).

Knows a site of links drawn by chance (`site`), crawlers that walk it (`crawl`), the paper's two measurements with their
intervals (`suppression`) and how they are drawn (`plot`). Never asks the clock, a file or a real site, and never draws
from a source of chance that was not given its seed: same seed, same bytes. Called by the command line only; nothing of
the running gate is used or changed. Tests: `tests/simulate/`.
"""
