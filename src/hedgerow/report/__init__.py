"""
Report: who crawls a site, from its access logs; and `replay`, which sends a log through the live engine.

Owns the tables (`tables/`), traffic shape (`shape/`), campaigns (`campaigns/`), opinions, and the output as HTML, JSON
and text. Never changes the state. Called by `hedgerow report` and `hedgerow replay`. Tests: `tests/report/`.
"""
