"""
Two real applications, and people who use them in a browser: a forum (Spirit, on Django) and a wiki (DokuWiki, on PHP).

Each application is seeded once and kept in a temporary folder; every start takes a copy, so what one test writes no
other one reads. The scenarios go by what a person sees, never by the shape of a URL: the same bare and behind Hedgerow.
"""
