"""
Lab: training, simulation, training crawlers and the demo.

Owns everything that is not needed to protect a site or to read its logs. Never runs in a gate. Called by `cli` and
`evaluate` only. Tests: `tests/lab/`.
"""
