"""
Lab: training, simulation, training crawlers and the demo. Nothing else imports it but `cli`.

Tests: `tests/lab/`.
"""
