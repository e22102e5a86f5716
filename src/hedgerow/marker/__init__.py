"""
Markers: what our links carry, sealed.

Knows how to seal a marker into a token and to unseal it again (`seal`), where a link leads (`resolve`), and how the
links of a page (`rewrite`) and of an answer's headers (`headers`) are marked. Never keeps a table of tokens, reads a
file or decides anything: a token that does not open is the value `None`. Called by the gate (on the way in) and by the
adapters (on the way out). Tests: `tests/marker/`.
"""
