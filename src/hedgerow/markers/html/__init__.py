"""
HTML on its way out, byte for byte: scanning, character sets, content codings, content security policies.

Never changes a byte that it was not asked to change. Called by `markers` and `web`. Tests: `tests/markers/html/`.
"""
