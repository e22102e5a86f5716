"""
Training crawlers: PathMarker's depth-first, breadth-first and random-like crawlers, sent against one's own site.

Knows the orders (`frontier`), the pauses (`delay`), which hosts are one's own (`own`) and how Scrapy is made to crawl
so (`spider`, the only file that needs it). Never leaves the site it was sent to. Called by `hedgerow crawl`. Tests:
`tests/crawl/`.
"""
