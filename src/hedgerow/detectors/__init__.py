"""
Detectors, one file each: a visit and what is remembered about it go in, evidence comes out.

Never decide what is done about the evidence (`policy`) and keep no state of their own (`state`). Called by the engine.
Tests: `tests/detectors/`, one file per detector.
"""
