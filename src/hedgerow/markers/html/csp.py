"""
Content security policies: allow our style rule, our scripts and our base element, and nothing else.

Otherwise a strict policy would disable the rule, and the hidden links would be visible. Rule and script are allowed by
their hashes, in the directives that govern style and script elements. A policy that allows them already is left as it
is, because a hash next to 'unsafe-inline' would disable the site's own inline styles or scripts.

Where a page gets a base from us and the policy forbids one, a base of the same origin is allowed. Ours stands first in
the page, and the first base counts, so an injected one has no effect.
"""

from __future__ import annotations

# The directives that govern an element: the first that a policy has. The second is added where it has only the last.
_STYLES = (b"style-src-elem", b"style-src", b"default-src")
_SCRIPTS = (b"script-src-elem", b"script-src", b"default-src")
_WORKERS = (b"worker-src", b"child-src", b"script-src", b"default-src")
_REQUESTS = (b"connect-src", b"default-src")
_TRUSTED_TYPE = b"hedgerow"


def allow_style(header: bytes, style_hash: bytes) -> bytes:
    """
    Return a Content-Security-Policy that allows the style with *style_hash*.

    >>> allow_style(b"default-src 'self'; img-src *", b"'sha256-x'")
    b"default-src 'self'; img-src *; style-src 'self' 'sha256-x'"
    >>> allow_style(b"style-src 'none'", b"'sha256-x'")
    b"style-src 'sha256-x'"
    """
    return b",".join(_allow_in_one(policy, style_hash, _STYLES) for policy in header.split(b","))


def allow_script(header: bytes, script_hash: bytes) -> bytes:
    """
    Return a Content-Security-Policy that allows the script with *script_hash*.

    >>> allow_script(b"script-src 'self' 'unsafe-inline'", b"'sha256-x'")
    b"script-src 'self' 'unsafe-inline'"
    """
    return b",".join(_allow_in_one(policy, script_hash, _SCRIPTS) for policy in header.split(b","))


def allow_files(header: bytes, folder: bytes) -> bytes:
    """
    Return a Content-Security-Policy that allows a script and a worker in *folder* (host and path), and requests to it.

    >>> allow_files(b"default-src 'none'; script-src 'self'", b"example.org/.hedgerow/")
    b"default-src 'none'; script-src 'self'; connect-src example.org/.hedgerow/"
    >>> allow_files(b"script-src 'nonce-x'; worker-src 'none'", b"example.org/.hedgerow/")
    b"script-src 'nonce-x' example.org/.hedgerow/; worker-src example.org/.hedgerow/"
    >>> allow_files(b"trusted-types dompurify", b"example.org/.hedgerow/")
    b'trusted-types dompurify hedgerow'
    """
    for governed_by in (_SCRIPTS, _WORKERS, _REQUESTS):
        header = b",".join(_allow_folder_in_one(policy, folder, governed_by) for policy in header.split(b","))
    return b",".join(_allow_trusted_type_in_one(policy) for policy in header.split(b","))


def script_nonce(header: bytes) -> bytes:
    """
    Return the nonce that a Content-Security-Policy demands of scripts, or b"".

    >>> script_nonce(b"default-src 'self'; script-src 'strict-dynamic' 'nonce-4AEemGb0'")
    b'4AEemGb0'
    """
    for policy in header.split(b","):
        by_name = _directives(policy)
        governing = next((name for name in _SCRIPTS if name in by_name), b"")
        for source in by_name.get(governing, ()):
            if source.lower().startswith(b"'nonce-"):
                return source[7:-1]
    return b""


def forbids_scripts(header: bytes) -> bool:
    """Return whether a Content-Security-Policy runs no script at all, as a sandbox does that does not allow them."""
    sandboxes = [_directives(policy).get(b"sandbox") for policy in header.split(b",")]
    return any(words is not None and b"allow-scripts" not in [w.lower() for w in words] for words in sandboxes)


def demands_trusted_types(header: bytes) -> bool:
    """Return whether a Content-Security-Policy lets no script add another one by its address."""
    return any(b"require-trusted-types-for" in _directives(policy) for policy in header.split(b","))


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


def _allow_folder_in_one(policy: bytes, folder: bytes, governed_by: tuple[bytes, ...]) -> bytes:
    by_name = _directives(policy)
    governing = next((name for name in governed_by if name in by_name), None)
    if governing is None or not {b"*", b"'self'", folder}.isdisjoint(s.lower() for s in by_name[governing][1:]):
        return policy
    allowed = [*_sources(by_name[governing]), folder]
    if governing == governed_by[0] or (governed_by is _SCRIPTS and governing == b"script-src"):
        return _with(policy, governing, allowed)
    name = b"script-src" if governed_by is _SCRIPTS else governed_by[0]
    return policy.rstrip(b"; ") + b"; " + b" ".join([name, *allowed])


def _allow_trusted_type_in_one(policy: bytes) -> bytes:
    """Return *policy* with the name under which our script starts its worker, where only some names may be used."""
    directive = _directives(policy).get(b"trusted-types")
    if directive is None or not {b"*", _TRUSTED_TYPE}.isdisjoint(directive[1:]):
        return policy
    return _with(policy, b"trusted-types", [*_sources(directive), _TRUSTED_TYPE])


def _allow_in_one(policy: bytes, allowed_hash: bytes, governed_by: tuple[bytes, ...]) -> bytes:
    by_name = _directives(policy)
    governing = next((name for name in governed_by if name in by_name), None)
    if governing is None:
        return policy
    lowered = [source.lower() for source in by_name[governing][1:]]
    hashed = any(source.startswith((b"'sha", b"'nonce-")) for source in lowered)
    if b"'unsafe-inline'" in lowered and not hashed:
        return policy
    allowed = [*_sources(by_name[governing]), allowed_hash]
    if governing == b"default-src":
        return policy.rstrip(b"; ") + b"; " + b" ".join([governed_by[1], *allowed])
    return _with(policy, governing, allowed)
