"""
Training crawlers: PathMarker's depth-first, breadth-first and random-like crawlers, for your own site.

Owns link orders and delays (`schedule`), the check for own hosts (`own_hosts`) and the Scrapy spider (`spider`).
Never leaves the site it was sent to. Called by `hedgerow crawl`. Tests: `tests/lab/crawl/`.
"""
