"""
Watch: analyses visits after the response is on its way, in order for each visitor, and reports findings to the state.

Owns sessions, path and window models, link sharing and campaigns, and the ways visits reach a watch in a thread,
another process or through Redis. Never delays a request. Called by `web`, `report.replay` and `hedgerow watch`. Tests:
`tests/watch/`.
"""
