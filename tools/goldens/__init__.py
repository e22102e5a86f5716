"""
Golden outputs: what users see of a checkout, recorded to files that can be compared.

Owns the recording of help texts, settings, commands, HTTP traffic, reports and replays. Never imports Hedgerow: it is
driven through its command line, its settings and its public middleware, in processes that run under a given Python.
`tools/golden` and tests/golden/test_golden.py call it. Tests: tests/golden.
"""
