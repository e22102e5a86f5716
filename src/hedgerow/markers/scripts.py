"""
Scripts that are added to pages: two keep clean marks out of sight of the site's own scripts, one loads another.

`LINKS_ELEMENT` stands at the end of pages that have scripts. As soon as a person points at a link, or moves to it by
keyboard, it takes the mark away. So a script that opens links itself (Turbo, htmx, SvelteKit) requests and shows the
address that the site wrote. If no script handles the click, the mark is put back, and the browser follows the marked
link. The same is done for forms.

`WORKER_SCRIPT` is added to a service worker. Such a worker keeps pages by their addresses, to show them without a
network. A page that was stored at one marked address must be found when it is asked for at another.

`LOADER` loads the script that obtains a clearance, after the page.
"""

from __future__ import annotations

import binascii
from hashlib import sha256
from importlib.resources import files

from hedgerow.markers.clean import PLAIN_SCRIPT


def _load(name: str) -> bytes:
    """Return a script that comes with the package, without comments and line breaks."""
    lines = files("hedgerow.data").joinpath(name).read_text("utf-8").splitlines()
    return "".join(line for line in lines if not line.startswith("//")).encode().replace(b"PLAIN", PLAIN_SCRIPT)


def _hash(script: bytes) -> bytes:
    return b"'sha256-" + binascii.b2a_base64(sha256(script).digest(), newline=False) + b"'"


_LINKS = _load("links.js")
LINKS_ELEMENT = b"<script>" + _LINKS + b"</script>"
"""Takes marks from links that a script may open."""
LINKS_HASH = _hash(_LINKS)
"""The source that a content security policy must allow."""
LOADER = _load("loader.js")
"""Loads the address in `data-src` of its element, with the other attributes, once the page is there."""
LOADER_HASH = _hash(LOADER)
"""The source that a content security policy must allow."""
WORKER_SCRIPT = b"\n;" + _load("worker.js") + b"\n"
"""What is added to a service worker. It stands at the end, so that a "use strict" at the start still counts."""
