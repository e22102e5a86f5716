"""
Content security policies: allow our one style rule and our base element, and nothing else.

Otherwise a strict policy would disable the rule, and the hidden links would be visible. The rule is allowed by its
hash, in the directive that governs style elements. A policy that allows it already is left as it is, because a hash
next to 'unsafe-inline' would disable the site's own inline styles.

Where a page gets a base from us and the policy forbids one, a base of the same origin is allowed. Ours stands first in
the page, and the first base counts, so an injected one has no effect.
"""

from __future__ import annotations

_GOVERNING = (b"style-src-elem", b"style-src", b"default-src")


def allow_style(header: bytes, style_hash: bytes) -> bytes:
    """
    Return a Content-Security-Policy that allows the style with *style_hash*.

    >>> allow_style(b"default-src 'self'; img-src *", b"'sha256-x'")
    b"default-src 'self'; img-src *; style-src 'self' 'sha256-x'"
    >>> allow_style(b"style-src 'none'", b"'sha256-x'")
    b"style-src 'sha256-x'"
    """
    return b",".join(_allow_in_one(policy, style_hash) for policy in header.split(b","))


def allow_base(header: bytes) -> bytes:
    """
    Return a Content-Security-Policy that allows a base of the page's own origin.

    >>> allow_base(b"default-src 'self'; base-uri 'none'")
    b"default-src 'self'; base-uri 'self'"
    """
    return b",".join(_allow_base_in_one(policy) for policy in header.split(b","))


def _allow_base_in_one(policy: bytes) -> bytes:
    directive = _directives(policy).get(b"base-uri")
    if directive is None or b"'self'" in [source.lower() for source in directive[1:]]:
        return policy
    return _with(policy, b"base-uri", [*_sources(directive), b"'self'"])


def _directives(policy: bytes) -> dict[bytes, list[bytes]]:
    """Return the directives of a policy by name, each with all its words. The first of two with one name counts."""
    by_name: dict[bytes, list[bytes]] = {}
    for part in policy.split(b";"):
        if words := part.split():
            by_name.setdefault(words[0].lower(), words)
    return by_name


def _sources(directive: list[bytes]) -> list[bytes]:
    return [source for source in directive[1:] if source.lower() != b"'none'"]


def _with(policy: bytes, name: bytes, sources: list[bytes]) -> bytes:
    """Return *policy* with other sources for the directive *name*; all others stay as they are, to the byte."""
    parts = policy.split(b";")
    for index, part in enumerate(parts):
        words = part.split()
        if words and words[0].lower() == name:
            lead = b" " if part.startswith(b" ") else b""
            parts[index] = lead + b" ".join([words[0], *sources])
            break
    return b";".join(parts)


def _allow_in_one(policy: bytes, style_hash: bytes) -> bytes:
    by_name = _directives(policy)
    governing = next((name for name in _GOVERNING if name in by_name), None)
    if governing is None:
        return policy
    lowered = [source.lower() for source in by_name[governing][1:]]
    hashed = any(source.startswith((b"'sha", b"'nonce-")) for source in lowered)
    if b"'unsafe-inline'" in lowered and not hashed:
        return policy
    allowed = [*_sources(by_name[governing]), style_hash]
    if governing == b"default-src":
        return policy.rstrip(b"; ") + b"; " + b" ".join([b"style-src", *allowed])
    return _with(policy, governing, allowed)
