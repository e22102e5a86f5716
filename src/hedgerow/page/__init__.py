"""
Pages: HTML on its way out, byte for byte.

Knows where in a page something may be added without a reader noticing (`scan`), how content codings and charsets are
undone and done again (`coding`, `charset`), and how a content security policy is kept true (`policy`). Never decides
what is added, to whom, or whether. Called by the traps and by the adapters. Tests: `tests/page/`.
"""
