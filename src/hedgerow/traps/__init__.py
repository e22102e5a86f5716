"""
Traps: what only a crawler falls into.

Knows the hidden links that are put into pages (`bait`), the decoy pages behind them (`maze`), how slowly and how many
of them are served (`tarpit`), and how polite crawlers are told to stay out (`robots`). Never decides who is a crawler
and never sends a byte. Called by the adapters, on the way out. Tests: `tests/traps/`.
"""
