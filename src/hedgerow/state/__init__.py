"""
State: the small hot memory: counters, scores, blocks, used challenges, clearance usage, revoked bots.

One folder for each engine: `memory` for one process, `lmdb` for the workers of a machine, `redis` for several machines,
`sqlite` for what outlives a restart. Never decides. Called through the gate and the challenge endpoints.
Tests: `tests/state/` (conformance suites that every engine passes), `tests/real/`.
"""
