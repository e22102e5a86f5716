"""
Request: from a raw request to a `Visit`: account, known bots and their proofs, header anomalies, markers.

Never decides and never counts. Called by the gate's identification step and by `logs`. Tests: `tests/request/`.
"""
