"""
Campaigns: sources of a log that belong together.

Owns five ways to find them: traffic that rises and falls together (`traffic_similarity`), networks and user agents with
the same page mix (`network_groups`, with `group_links`), the same short visits with the same errors,
the same pages in the same order, the same minutes (`shared_requests`). `search` runs them all. Never decides, asks the
clock or reads files. Called by the report. Tests: `tests/report/campaigns/`.
"""
