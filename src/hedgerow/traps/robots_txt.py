"""
The site's robots.txt with the trap links disallowed, so that a polite crawler never meets a trap.

A crawler obeys only the group that names it, so every group gets the rule directly after its user-agent lines. That
works for crawlers that use the longest matching rule (RFC 9309) and for those that use the first. If no group is for
all crawlers, one is added at the end. Every other byte stays the same, and so do the rules for all other paths.

Three cases need care:

- An `Allow` of the site may match below the prefix and be at least as long as the new rule, such as `Allow: /*`. The
  longest rule wins, and a tie goes to `Allow`. The site's line stays, since it may allow other paths as well. The group
  gets a second rule instead: the prefix followed by enough `*` to be the longest. It means the same, and wins.
- Parsers disagree on where a group ends. For some, a line such as `Crawl-delay` between two user-agent lines starts
  another group; for the RFC it does not. The rule goes where the RFC sees it. The agents that other parsers would see
  without it are named again in a group at the end. Some parsers also accept `User agent x`. Such a line is repeated as
  it is: spelt correctly, it would take *x* out of the group for all.
- Parsers must read only the first 500 KiB (RFC 9309, 2.5). A longer file is cut there, at the end of a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes

LIMIT = 512_000
"""The part of a robots.txt that is used: 500 KiB."""

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_END = re.compile(rb"\r\n|\r|\n")
# "User-agent: x", and the forms that lenient parsers accept: "Useragent: x", "User agent x".
_AGENT = re.compile(rb"user[- ]?agent(?:\s*:\s*|\s+|$)", re.IGNORECASE)
_AGENT_LINE = b"User-agent: "
_ALL_AGENTS = b"user-agent: *"
_ALLOW = re.compile(rb"allow(?:\s*:\s*|\s+)", re.IGNORECASE)
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/*")

_Field = Literal["agent", "allow", "disallow", "sitemap", "blank", "other"]


class _Line(NamedTuple):
    """
    A parsed line. *exact* is true if every parser agrees on it.

    The value of a user-agent line is the whole line, so that the forms of lenient parsers stay distinct.
    """

    field: _Field
    value: bytes
    exact: bool


class _Group(NamedTuple):
    """
    A group as defined by RFC 9309. *last* is the number of its last user-agent line.

    *sure* are the user-agent lines that every parser sees in this group, *unsure* those that only some do. *rules* are
    the rules to add, *strength* is the length of the longest one that the group has or gets.
    """

    last: int
    sure: tuple[_Line, ...]
    unsure: tuple[_Line, ...]
    rules: tuple[bytes, ...]
    strength: int


def disallow(robots: bytes, prefix: str) -> bytes:
    r"""
    Disallow everything that starts with *prefix* for all crawlers. Applying it twice changes nothing.

    >>> disallow(b"User-agent: a\r\nAllow: /\r\n", "/~").splitlines()
    [b'User-agent: a', b'Disallow: /~', b'Allow: /', b'', b'User-agent: *', b'Disallow: /~']
    """
    if len(robots) > LIMIT:
        whole = max(robots.rfind(b"\n", 0, LIMIT), robots.rfind(b"\r", 0, LIMIT))
        robots = robots[: whole + 1]
    path = prefix.encode()
    end = _line_end(robots)
    raw: list[bytes] = _LINE.findall(robots)
    lines = [_read(line.removeprefix(_BOM) if number == 0 else line) for number, line in enumerate(raw)]
    groups = _groups(lines, path)
    for group in groups:
        added = [_Line("disallow", rule, exact=True) for rule in group.rules]
        if lines[group.last + 1 : group.last + 1 + len(added)] != added:
            raw[group.last] = _closed(raw[group.last], end) + _disallow(group.rules, end)
    more = _additional_groups(groups, path, end)
    if more and raw:
        raw[-1] = _closed(raw[-1], end) + end
    return b"".join(raw) + more


def with_license(robots: bytes, url: str) -> bytes:
    r"""
    Add the line of Really Simple Licensing (RSL) with the address of the terms, unless there is one.

    It comes first, because it belongs to no group.

    >>> with_license(b"User-agent: a\nDisallow:\n", "https://a.example/l.xml").splitlines()[:2]
    [b'License: https://a.example/l.xml', b'']
    """
    if any(line.strip().lower().startswith(b"license:") for line in _LINE.findall(robots[:LIMIT])):
        return robots
    end = _line_end(robots)
    return b"License: " + url.encode() + end + end + robots.removeprefix(_BOM)


def refuse(robots: bytes, agents: Sequence[str]) -> bytes:
    r"""
    Disallow everything for *agents*. Nothing changes for other crawlers.

    The site may have rules for one of them, perhaps in a group with others, and an `Allow` there would win. So its name
    is replaced in every group by one that no crawler has, and all get one group at the end.

    >>> refuse(b"User-agent: a\nUser-agent: b\nAllow: /\n", ["B"]).splitlines()
    [b'User-agent: a', b'User-agent: nobody', b'Allow: /', b'', b'User-agent: B', b'Disallow: /']
    """
    names = {agent.lower().encode() for agent in agents}
    end = _line_end(robots)
    raw: list[bytes] = _LINE.findall(robots[:LIMIT])
    is_open = False
    for number, line in enumerate(raw):
        text = line.removeprefix(_BOM if number == 0 else b"").partition(b"#")[0].strip()
        agent = _AGENT.match(text)
        if agent and text[agent.end() :].strip().lower() in names:
            raw[number] = _AGENT_LINE + b"nobody" + end
        read = _read(text)
        is_open = read.field == "agent" or (is_open and not (read.exact and read.field in {"allow", "disallow"}))
    if raw:
        # A last group without rules allows everything. Without this line it would continue in the new group.
        raw[-1] = _closed(raw[-1], end) + (b"Disallow:" + end if is_open else b"") + end
    group = b"".join(_AGENT_LINE + name.encode() + end for name in agents)
    return b"".join(raw) + group + _disallow((b"/",), end)


def _line_end(robots: bytes) -> bytes:
    first = _END.search(robots)
    return first[0] if first else b"\n"


def _disallow(rules: Sequence[bytes], end: bytes) -> bytes:
    return b"".join(b"Disallow: " + rule + end for rule in rules)


def _closed(line: bytes, end: bytes) -> bytes:
    return line if line.endswith((b"\r", b"\n")) else line + end


def _read(line: bytes) -> _Line:
    text = line.partition(b"#")[0].strip()
    if not text:
        return _Line("blank", b"", exact=True)
    name, colon, value = text.partition(b":")
    name, value = name.strip().lower(), value.strip()
    if colon and name == b"user-agent":
        return _Line("agent", _AGENT_LINE + value, exact=True)
    if colon and name == b"disallow":
        return _Line("disallow", value, exact=True)
    if colon and name == b"sitemap":
        return _Line("sitemap", value, exact=True)
    if _AGENT.match(text):
        return _Line("agent", text, exact=False)
    if allow := _ALLOW.match(text):
        return _Line("allow", text[allow.end() :], exact=bool(colon) and name == b"allow")
    return _Line("other", text, exact=False)


def _groups(lines: Sequence[_Line], path: bytes) -> list[_Group]:
    groups: list[_Group] = []
    number = 0
    while number < len(lines):
        if lines[number].field == "agent":
            groups.append(_group(lines, number, path))
            number = groups[-1].last
        number += 1
    return groups


def _group(lines: Sequence[_Line], first: int, path: bytes) -> _Group:
    last = first
    sure: list[_Line] = []
    unsure: list[_Line] = []
    allowed: list[bytes] = []
    strength = 0
    ruled = unclear = False
    for number in range(first, len(lines)):
        line = lines[number]
        if line.field == "agent":
            if ruled:
                break
            if unclear:
                unsure += sure
                sure.clear()
                unclear = False
            sure.append(line)
            last = number
        elif line.field == "allow":
            allowed.append(line.value)
        elif line.field == "disallow" and line.value.rstrip(b"*") == path:
            strength = max(strength, len(line.value))
        ruled = ruled or (line.exact and line.field in {"allow", "disallow"})
        unclear = unclear or not line.exact
    rules = _rules(path, allowed)
    return _Group(last, tuple(sure), tuple(unsure), rules, max(strength, len(rules[-1])))


def _additional_groups(groups: Sequence[_Group], path: bytes, end: bytes) -> bytes:
    """Return the groups to append: for all crawlers, and for agents that some parsers see without rules."""
    existing: dict[bytes, int] = {}
    needed = {_ALL_AGENTS: path}
    lines = {_ALL_AGENTS: _Line("agent", _AGENT_LINE + b"*", exact=True)}
    for group in groups:
        for line in group.sure:
            agent = line.value.lower()
            existing[agent] = max(existing.get(agent, 0), group.strength)
        for line in group.unsure:
            agent = line.value.lower()
            if line.value != _AGENT_LINE:
                lines.setdefault(agent, line)
                needed[agent] = max(needed.get(agent, path), group.rules[-1], key=len)
    missing = [agent for agent, rule in needed.items() if existing.get(agent, 0) < len(rule)]
    longest = max((needed[agent] for agent in missing), key=len, default=path)
    rules = _disallow((path,) if longest == path else (path, longest), end)
    exact = b"".join(lines[agent].value + end for agent in missing if lines[agent].exact)
    return (exact + rules if exact else b"") + b"".join(
        lines[agent].value + end + rules for agent in missing if not lines[agent].exact
    )


def _rules(path: bytes, allowed: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the rules to add to a group that allows *allowed*: the prefix, and a longer form if needed."""
    longest = max((_weight(rule) for rule in allowed if _opens(rule, path)), default=0)
    if longest < len(path):
        return (path,)
    return (path, path + b"*" * (longest + 1 - len(path)))


def _opens(rule: bytes, path: bytes) -> bool:
    """Return whether `Allow: rule` might match an address that starts with *path*, in any spelling."""
    before, star, _ = unquote_to_bytes(rule).partition(b"*")
    return before.startswith(path) or (bool(star) and path.startswith(before))


def _weight(rule: bytes) -> int:
    """Return the length of a rule for parsers that escape before they compare."""
    text = rule.decode("utf-8", "replace").encode()
    return sum(1 if byte in _UNESCAPED else 3 for byte in text)
