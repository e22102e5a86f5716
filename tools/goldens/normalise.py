"""
What is replaced in recordings because it changes from run to run, each with its reason.

Nothing else is replaced. Keys are fixed (`checkout.KEYS`), so opaque and readable links and the visitor cookie are
recorded as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """Replace what *pattern* finds, and why."""

    reason: str
    pattern: str
    replacement: str


REPLAY_RULES = (
    Rule("how long the replay took", r'"seconds": [\d.]+', '"seconds": (seconds)'),
    Rule("how fast it was", r'"lines_per_second": \d+', '"lines_per_second": (rate)'),
    Rule("both, on the terminal", r"; [\d,.]+ s, [\d,]+ lines/s", "; (seconds) s, (rate) lines/s"),
)
MOMENTS = (
    Rule("a moment of this run", r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?", "(moment)"),
    Rule("a moment of this run, in words", r"\d\d:\d\d UTC on \d{1,2} [A-Z][a-z]+ \d{4}", "(moment)"),
)
REFERENCES = (
    Rule("references are random", r"(?<![\w-])(?-i:[0-9A-F]{4}-[0-9A-F]{4})(?![\w-])", "(reference)"),
    Rule("the same in the subject of a mail", r"(Reference%20)(?-i:[0-9A-F]{4}-[0-9A-F]{4})", r"\1(reference)"),
)
MARKS = (
    Rule("a clean mark names the day", r"([?&;]~=)[\w-]{23}\.[\w-]{4}(?![\w-])", r"\1(mark)"),
    Rule("and so does one that was cut off", r"([?&;]~=)[\w-]{20}(?![\w.-])", r"\1(cut mark)"),
)
REQUEST_IDS = (Rule("each request has its own id", r"^[0-9a-f]{18}$", "(id)"),)
HEADER_RULES = (
    *MARKS,
    Rule("the time of the response", r"^(date: ).*", r"\1(date)"),
    Rule("versions of Python and of its server", r"^(server: \S+?)/[\d.]+(?: CPython/[\d.]+)?$", r"\1/(version)"),
    Rule("each challenge page has its own nonce", r"'nonce-[\w-]+'", "'nonce-(nonce)'"),
    Rule("a clearance is encrypted and holds a random name", r"(hedgerow-clearance)=[\w.~-]+", r"\1=(clearance)"),
    Rule("a refusal that waits for its front has a random name", r"^(hedgerow-ref: ).*", r"\1(name)"),
    Rule("rounding of the clock: a wait of one hour is 3600 or 3601 seconds", r"^(retry-after: \d+)[01]$", r"\g<1>0"),
)
BODY_RULES = (
    *MARKS,
    Rule(
        "tickets and challenges are encrypted and random",
        r'(name="(?:ticket|challenge)" value=)"[^"]+"',
        r'\1"(token)"',
    ),
    Rule("each challenge page has its own nonce", r'nonce="[\w-]+"', 'nonce="(nonce)"'),
    Rule("the numbers of a calculation are random", r'data-question="[^"]+"', 'data-question="(question)"'),
    Rule("images and recordings are random", r"(data:(?:image|audio)/\w+;base64,)[\w+/=]+", r"\1(content)"),
    Rule("rounding of the clock, as in Retry-After", r'("retry_after":\d+)[01]\b', r"\g<1>0"),
    *MOMENTS,
    *REFERENCES,
)
CLEARED_RULES = (
    Rule("links for a visitor with a clearance, who has a random name", r"(/~|[?&;]~=)[\w-]{40,}", r"\1(link)"),
    Rule("the cookie that names this visitor", r"\b(hedgerow)=[\w-]{40,}", r"\1=(visitor)"),
    Rule("the style classes of its hidden links", r"<style>(?-i:[.,a-z_-]+)(?=\{display)", "<style>(names)"),
    Rule(
        "the forms of hidden links with text, which depend on the visitor",
        r'(?:<(?:span|datalist) class="(?-i:[a-z]{5})" [^>]+><a|<noscript><a class="(?-i:[a-z]{5})")'
        r' (href="[^"]*">[^<]*)</a></\w+>',
        r"(hidden: <a \1</a>)",
    ),
    Rule("the class of one without text", r'<a class="(?-i:[a-z_-]*share[a-z_-]*)"', '<a class="(name)"'),
)
STATE_RULES = (
    *MARKS,
    Rule("a moment of this run, in seconds", r'"(until|at|since|first|last)": ?\d{10}(?:\.\d+)?', r'"\1": (moment)'),
    Rule("a score fades as time passes, in a ledger", r'"weight":\d+\.\d{5,}', '"weight":(faded)'),
    Rule("the same, in JSON", r'"suspicion": ?\d+\.\d+', '"suspicion": (score)'),
    Rule("the same, in a table", r"^(\S+ +(?:person|suspect)) +\d+\.\d\d ", r"\1  (score) "),
    Rule("how long a block still lasts", r"<td>\d+ min</td>", "<td>(number) min</td>"),
    Rule("how much memory the counters take", r"in [\d.,]+ MB", "in (number) MB"),
    Rule("a clearance has a random name", r"\b(clearance:)[0-9a-f]{16}\b", r"\1(name)"),
    *MOMENTS,
    *REFERENCES,
)


def normalise(text: str, rules: tuple[Rule, ...]) -> str:
    """*text* with all that *rules* find replaced."""
    for rule in rules:
        text = re.sub(rule.pattern, rule.replacement, text, flags=re.MULTILINE | re.IGNORECASE)
    return text


def hide(text: str, names: Mapping[str, str]) -> str:
    """
    *text* with each of the strings in *names* replaced by its name.

    For what only the recording itself knows to be temporary: free ports that were chosen, temporary folders.
    """
    for value in sorted(names, key=len, reverse=True):
        text = text.replace(value, names[value])
    return text
