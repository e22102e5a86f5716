"""
Demo: a real site, Hedgerow in front of it, crawlers against both, and a person who reads all the time.

Owns the processes of `hedgerow demo` (`run`), its site (`site`), crawlers (`crawlers`, `plain_crawler`,
`scrapy_spider`), person (`person`) and address relay (`relay`). Never leaves 127.0.0.0/8, and leaves nothing behind.
Called by `hedgerow demo`. Tests: `tests/real/test_demo.py`.
"""
