"""
HTML bodies, byte for byte: scanner, charsets, content codings, content security policies.

Never changes a byte that it was not asked to change. Called by `markers` and `web`. Tests: `tests/markers/html/`.
"""
