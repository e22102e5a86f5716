"""Crawlers of several makes for `evaluate.live`, scripts that never leave the origin they are given."""
