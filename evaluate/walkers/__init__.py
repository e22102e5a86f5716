"""Crawlers of several makes for `evaluate.live`: scripts that never leave the given origin."""
