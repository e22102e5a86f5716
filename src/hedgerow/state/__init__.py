"""
State: the small data that every decision needs: counters, scores, blocks, used challenges, clearance usage.

`memory` is for one process, `lmdb` for the workers of a machine, `redis` for several machines, and `sqlite` for what
survives a restart. Never decides. Called through the gate and the challenge endpoints.
Tests: `tests/state/` (conformance suites that every engine passes), `tests/real/`.
"""
