"""
Lookups: what must be asked of others, beside the requests and never in their way.

Knows name servers and how a file is fetched from a stranger's host without being led astray. Never judges: answers go
into `identity`'s memories. Started by the site, asked by `identity` through a callable. Tests: `tests/lookups/`.
"""
