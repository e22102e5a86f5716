"""
Content security policies: let our one style rule through, and nothing else.

Without it a strict policy would switch the rule off and the hidden links would be there to see. The rule is allowed by
its hash, in the directive that governs style elements; a policy that allows it already is left as it is, because a hash
next to 'unsafe-inline' would switch the site's own inline styles off.
"""

from __future__ import annotations

_GOVERNING = (b"style-src-elem", b"style-src", b"default-src")


def allow_style(header: bytes, style_hash: bytes) -> bytes:
    """
    A Content-Security-Policy header that lets the style with *style_hash* through.

    >>> allow_style(b"default-src 'self'; img-src *", b"'sha256-x'")
    b"default-src 'self'; img-src *; style-src 'self' 'sha256-x'"
    >>> allow_style(b"style-src 'none'", b"'sha256-x'")
    b"style-src 'sha256-x'"
    """
    return b",".join(_allow_in_one(policy, style_hash) for policy in header.split(b","))


def _allow_in_one(policy: bytes, style_hash: bytes) -> bytes:
    directives = [part.split() for part in policy.split(b";")]
    by_name: dict[bytes, list[bytes]] = {}
    for words in directives:
        if words:
            # Of two directives with one name the first counts.
            by_name.setdefault(words[0].lower(), words)
    governing = next((name for name in _GOVERNING if name in by_name), None)
    if governing is None:
        return policy
    sources = by_name[governing][1:]
    lowered = [source.lower() for source in sources]
    hashed = any(source.startswith((b"'sha", b"'nonce-")) for source in lowered)
    if b"'unsafe-inline'" in lowered and not hashed:
        return policy
    allowed = [source for source in sources if source.lower() != b"'none'"] + [style_hash]
    if governing == b"default-src":
        return policy.rstrip(b"; ") + b"; " + b" ".join([b"style-src", *allowed])
    changed = by_name[governing]
    # A word list that was changed is written anew; all others stay as they were, to the byte.
    parts = policy.split(b";")
    for index, words in enumerate(directives):
        if words is changed:
            lead = b" " if parts[index].startswith(b" ") else b""
            parts[index] = lead + b" ".join([words[0], *allowed])
    return b";".join(parts)
