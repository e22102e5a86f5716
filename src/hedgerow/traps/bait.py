"""
Bait: hidden links in a page.

A person cannot follow one: it is not painted, not reachable by keyboard and not in the accessibility tree. Every link
is different, and its token names the page on which it stands and the visitor to whom it was issued. `markers.rewrite`
puts them into pages.

A hidden link has no text, so there is nothing to see even where no style sheet is read, as in a text browser. In a
browser with style sheets some hidden links have text, because many crawlers follow no link without. These are hidden
twice: by a rule of ours, and by an element or attribute that browsers hide by themselves. So they stay hidden where the
rule is lost, as when a reader switches style sheets off or a script copies a part of the page.

Firefox's reader view takes no notice of style sheets. It drops hidden links by what they are: an element that is hidden
by an attribute, a dialog, a link to share the page, an element for clients without scripts.
"""

from __future__ import annotations

import binascii
from hashlib import blake2b, sha256
from typing import NamedTuple

_LETTERS = bytes(b"bcdfghjklmnpqrstvwxzbcdfghjklmnpqrstvwxz"[n % 40] for n in range(256))
_NAME_LENGTH = 5
_HIDES = b"{display:none!important}"
# Names of a link to share the page, which reader view drops.
_CLASSES = (b"share-%b", b"share_%b", b"%b-share", b"%b_share")
# What stands before the address of a hidden link with text, and after its text. Reader view drops each before it weighs
# the text of the page. A page has two of them by turns: a crawler that knows one by an attribute follows the other.
_HIDDEN = (
    (b'<span class="%b" hidden><a href="', b"</a></span>"),
    (b'<datalist class="%b" aria-hidden="true"><a href="', b"</a></datalist>"),
)
# Some extensions show what is in a `<noscript>`, without its class: so the link has the class.
_UNSCRIPTED = ((b'<noscript><a class="%b" href="', b"</a></noscript>"),)
# Where no content security policy forbids style attributes.
_STYLED = (
    *_UNSCRIPTED,
    (b'<span class="%b" popover style="visibility:hidden"><a href="', b"</a></span>"),
    (b'<datalist class="%b" style="visibility:hidden"><a href="', b"</a></datalist>"),
)
# Where the page has no script that could take one for an open dialog.
_DIALOGS = (
    (b'<span class="%b" popover role="dialog" aria-modal="true"><a href="', b"</a></span>"),
    (b'<datalist class="%b" role="dialog" aria-modal="true"><a href="', b"</a></datalist>"),
)


class Wrappers(NamedTuple):
    """
    What stands before the address of a hidden link with text, and after its text.

    *one* and *other* take turns; where the page has no scripts, *without_scripts* takes the place of *one*.
    """

    one: tuple[bytes, bytes]
    other: tuple[bytes, bytes]
    without_scripts: tuple[bytes, bytes]


class Bait:
    """
    How the hidden links of one page are written for one visitor: always alike, and unlike those of others.

    *has_text* says that the client is a browser with style sheets, which may get hidden links with text; *has_policy*,
    that the page has a content security policy.
    """

    def __init__(self, issued_to: bytes, page: bytes, *, has_text: bool = False, has_policy: bool = False) -> None:
        digest = blake2b(issued_to + page, digest_size=2 * _NAME_LENGTH + 2).digest()
        names = digest.translate(_LETTERS)
        name = _CLASSES[digest[-1] % len(_CLASSES)] % names[:_NAME_LENGTH]
        selectors = b".%b.%b" % (name, name)
        self.link_start = b'<a class="%b" href="' % name
        """The text before the address of a hidden link without text."""
        self.wrappers: Wrappers | None = None
        """For hidden links with text; None if there are none."""
        text_selector = b""
        if has_text:
            name = names[_NAME_LENGTH : 2 * _NAME_LENGTH]
            text_selector = b".%b.%b" % (name, name)
            selectors += b"," + text_selector
            groups = (_UNSCRIPTED if has_policy else _STYLED, _HIDDEN, _DIALOGS)
            chosen = (group[digest[-2] % len(group)] for group in groups)
            self.wrappers = Wrappers(*((before % name, after) for before, after in chosen))
        self._rule = selectors + _HIDES
        self.style = b"<style>" + self._rule + b"</style>"
        """The style element, once before the first link."""
        self.text_style = (
            b"<style>" + text_selector + _HIDES + b"</style>" if has_text and not has_policy else self.style
        )
        """The same, shorter, for a page all of whose hidden links have text. A policy of the page allows only one."""

    def style_hash(self) -> bytes:
        """Return the source that a content security policy must allow, such as `'sha256-...'`."""
        return b"'sha256-" + binascii.b2a_base64(sha256(self._rule).digest(), newline=False) + b"'"
