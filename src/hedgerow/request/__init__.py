"""
Request: turns a raw live request into a `Visit`.

Owns accounts, known bots and their verification, header anomalies and the decryption of markers in addresses. Never
decides, counts or does I/O. Called by `core.gate`, and by `logs` for bots. Tests: `tests/request/`,
`tests/core/test_gate.py`.
"""
