"""
Benchmarks. `python -m bench` (or `make bench`) runs them all; `python -m bench proxy` one.

Machines are noisy, so every figure stands next to a reference that was measured in the same run, in turns with it, and
what counts is the ratio. CPU time, not wall time. No benchmark decides a test.
"""
