"""
Core: the nouns that everything else is about, and the engine that decides. Pure: no clock, no sockets, no files.

Owns the visit, evidence and decisions, the questions put to the state, the engine and the gate. Never looks at the
clock: a visit carries its own time. Called by `web`, `services`, `watch` and `report`. Tests: `tests/core/`.
"""
