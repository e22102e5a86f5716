"""
The site's robots.txt, with our links disallowed: so that a polite crawler never falls into a trap.

A crawler obeys only the group that names it, so every group gets the rule, directly behind its user-agent
lines: that holds for crawlers that take the longest matching rule (RFC 9309) and for those that take the
first. Where no group is for all, one is added at the end. Every other byte stays as it is, and so does the
verdict on every path that does not start with our prefix.

Three things need care:

- An `Allow` of the site may be as long as our rule or longer and match below our prefix (`Allow: /*`, or
  `Allow: /~ann/` where the prefix is `/~`); the longest rule wins, and a tie goes to `Allow`. The site's line
  stays, since it may open other paths too. The group gets a second rule instead, our prefix followed by as
  many `*` as make it the longest. It means the same, and wins. All below the prefix is ours: a site that has
  pages of its own there needs another prefix.
- Readers disagree on where a group ends: for some a line such as `Crawl-delay` between two user-agent lines
  starts another, for the RFC it does not. The rule goes where the RFC's reader sees it, and the agents whom
  others would see without it are named again in a group at the end; the groups of one agent add up. Some
  also read `User agent x`. Such a line is repeated as it is: spelt right, it would take *x* out of the group
  for all.
- Only the first 500 KiB of a robots.txt are sure to be read (RFC 9309, 2.5); a longer one is cut there, at
  the end of a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes

LIMIT = 512_000
"""Bytes of a robots.txt that are read: 500 KiB."""

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_END = re.compile(rb"\r\n|\r|\n")
# "User-agent: x", and what lenient readers take for it: "Useragent: x", "User agent x".
_AGENT = re.compile(rb"user[- ]?agent(?:\s*:\s*|\s+|$)", re.IGNORECASE)
_AGENT_LINE = b"User-agent: "
_ALL = b"user-agent: *"
_ALLOW = re.compile(rb"allow(?:\s*:\s*|\s+)", re.IGNORECASE)
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/*")

_Field = Literal["agent", "allow", "disallow", "sitemap", "blank", "other"]


class _Line(NamedTuple):
    """
    A line: what it is, its value, and whether every reader agrees that it is that.

    The value of a user-agent line is the line itself, so that those of lenient readers stay apart.
    """

    field: _Field
    value: bytes
    exact: bool


class _Group(NamedTuple):
    """
    A group, as RFC 9309 reads it. *last* is the number of its last user-agent line.

    *sure* are the user-agent lines whose rules stand here for every reader, *unsure* those that only some
    readers see here. *rules* are ours for it, *strength* is the length of the longest that it has or gets.
    """

    last: int
    sure: tuple[_Line, ...]
    unsure: tuple[_Line, ...]
    rules: tuple[bytes, ...]
    strength: int


def generated(prefix: str) -> bytes:
    """The robots.txt of a site that has none."""
    return disallow(b"", prefix)


def disallow(robots: bytes, prefix: str) -> bytes:
    r"""
    *robots* with all that starts with *prefix* disallowed for everybody; given its own answer, no change.

    >>> disallow(b"User-agent: a\r\nAllow: /\r\n", "/~").splitlines()
    [b'User-agent: a', b'Disallow: /~', b'Allow: /', b'', b'User-agent: *', b'Disallow: /~']
    """
    if len(robots) > LIMIT:
        whole = max(robots.rfind(b"\n", 0, LIMIT), robots.rfind(b"\r", 0, LIMIT))
        robots = robots[: whole + 1]
    path = prefix.encode()
    found = _END.search(robots)
    end = found[0] if found else b"\n"
    raw: list[bytes] = _LINE.findall(robots)
    lines = [_read(line.removeprefix(_BOM) if number == 0 else line) for number, line in enumerate(raw)]
    groups = _groups(lines, path)
    for group in groups:
        ours = [_Line("disallow", rule, exact=True) for rule in group.rules]
        if lines[group.last + 1 : group.last + 1 + len(ours)] != ours:
            raw[group.last] = _closed(raw[group.last], end) + _disallow(group.rules, end)
    added = _added(groups, path, end)
    if added and raw:
        raw[-1] = _closed(raw[-1], end) + end
    return b"".join(raw) + added


def refuse(robots: bytes, agents: Sequence[str]) -> bytes:
    r"""
    *robots* with everything disallowed for *agents*; nothing changes for anybody else.

    The site may have rules of its own for one of them, perhaps in a group with others, and an `Allow` there would win.
    So its name is taken out of every group, by another that no crawler has, and all get one group at the end.

    >>> refuse(b"User-agent: a\nUser-agent: b\nAllow: /\n", ["B"]).splitlines()
    [b'User-agent: a', b'User-agent: nobody', b'Allow: /', b'', b'User-agent: B', b'Disallow: /']
    """
    names = {agent.lower().encode() for agent in agents}
    found = _END.search(robots)
    end = found[0] if found else b"\n"
    raw: list[bytes] = _LINE.findall(robots[:LIMIT])
    is_open = False
    for number, line in enumerate(raw):
        text = line.removeprefix(_BOM if number == 0 else b"").partition(b"#")[0].strip()
        said = _AGENT.match(text)
        if said and text[said.end() :].strip().lower() in names:
            raw[number] = _AGENT_LINE + b"nobody" + end
        read = _read(text)
        is_open = read.field == "agent" or (is_open and not (read.exact and read.field in {"allow", "disallow"}))
    if raw:
        # A last group without rules, which allows everything, would go on in ours.
        raw[-1] = _closed(raw[-1], end) + (b"Disallow:" + end if is_open else b"") + end
    group = b"".join(_AGENT_LINE + agent.encode() + end for agent in agents)
    return b"".join(raw) + group + _disallow((b"/",), end)


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
    if found := _ALLOW.match(text):
        return _Line("allow", text[found.end() :], exact=bool(colon) and name == b"allow")
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
    """The group whose first user-agent line is number *first*."""
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


def _added(groups: Sequence[_Group], path: bytes, end: bytes) -> bytes:
    """The groups to be added: one for all where there is none, and for those whom some see without rules."""
    has: dict[bytes, int] = {}
    needs = {_ALL: path}
    lines = {_ALL: _Line("agent", _AGENT_LINE + b"*", exact=True)}
    for group in groups:
        for line in group.sure:
            agent = line.value.lower()
            has[agent] = max(has.get(agent, 0), group.strength)
        for line in group.unsure:
            agent = line.value.lower()
            if line.value != _AGENT_LINE:
                lines.setdefault(agent, line)
                needs[agent] = max(needs.get(agent, path), group.rules[-1], key=len)
    missing = [agent for agent, rule in needs.items() if has.get(agent, 0) < len(rule)]
    longest = max((needs[agent] for agent in missing), key=len, default=path)
    rules = _disallow((path,) if longest == path else (path, longest), end)
    exact = b"".join(lines[agent].value + end for agent in missing if lines[agent].exact)
    return (exact + rules if exact else b"") + b"".join(
        lines[agent].value + end + rules for agent in missing if not lines[agent].exact
    )


def _rules(path: bytes, allowed: Sequence[bytes]) -> tuple[bytes, ...]:
    """Our rules for a group that allows *allowed*: the prefix, and a longer form of it where it needs one."""
    longest = max((_weight(rule) for rule in allowed if _opens(rule, path)), default=0)
    if longest < len(path):
        return (path,)
    return (path, path + b"*" * (longest + 1 - len(path)))


def _opens(rule: bytes, path: bytes) -> bool:
    """Whether an `Allow` of *rule* might match something that starts with *path*, in any spelling."""
    plain = unquote_to_bytes(rule)
    before, star, _ = plain.partition(b"*")
    return before.startswith(path) or (bool(star) and path.startswith(before))


def _weight(rule: bytes) -> int:
    """How long a rule is at the most, for readers that escape before they compare."""
    text = rule.decode("utf-8", "replace").encode()
    return sum(1 if byte in _PLAIN else 3 for byte in text)
