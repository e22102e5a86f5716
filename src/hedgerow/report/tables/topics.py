"""
Topics of requests: what a request is for, as far as its target and method say, beyond being a page or an asset.

A browser fetches icons and manifests by itself. Programs try passwords, post forms, read feeds, fetch archives, call
interfaces, and probe for known holes. The topic has three bits and is stored with the flags of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import Kernel

NO_TOPIC, BROWSER, LOGIN, FEED, PROBE, DOWNLOAD, API, SENT = range(8)
"""
None; fetched by browsers themselves; a log-in; a feed; known holes, and what is no path; archives and data files; calls
of an interface; anything else that is sent by a method other than GET and HEAD.
"""

TOPIC_SHIFT = 5
"""Bits of the flags below the topic."""

# fmt: off
_BROWSER = (
    "favicon.ico", "manifest.json", "site.webmanifest", "manifest.webmanifest", "browserconfig.xml",
    "apple-app-site-association", "assetlinks.json", "traffic-advice", "safari-pinned-tab.svg", "opensearch.xml",
    "change-password", "appspecific",
)
_BROWSER_PREFIXES = ("apple-touch-icon", "favicon-", "mstile-", "android-chrome-")
_LOGIN = (
    "wp-login.php", "xmlrpc.php", "login", "login.php", "login.aspx", "signin", "sign-in", "logon", "user.php",
    "j_security_check", "login.action", "log-in", "admin.php", "login.cgi",
)
_LOGIN_FOLDER = ("administrator",)
_FEED = (
    "feed", "rss", "atom", "feed.xml", "rss.xml", "atom.xml", "index.rdf", "feeds", "feed.json", "rss.php", "feed.php",
)
_FEED_PARAMETERS = (
    "feed=rss", "feed=rss2", "feed=atom", "feed=rdf", "feed=comments-rss2", "feed=comments-atom", "flav=rss",
    "flav=rss20", "flav=atom", "format=rss", "format=atom", "format=feed", "type=rss", "type=atom", "output=rss",
    "output=atom", "alt=rss", "alt=atom",
)
_PROBE = (
    ".env", ".git", ".svn", ".hg", ".ds_store", ".aws", ".ssh", ".htaccess", ".htpasswd", "phpmyadmin", "pma",
    "myadmin", "phpinfo.php", "cgi-bin", "phpunit", "eval-stdin.php", "shell.php", "setup.cgi", "boaform", "hnap1",
    "gponform", "root.exe", "cmd.exe", "default.ida", "_vti_bin", "_mem_bin", "msadc", "nsiislog.dll", "awstats.pl",
    "wlwmanifest.xml", "wp-config.php", "wp-config.php.bak", "jmx-console", "solr", "actuator", "jenkins",
    "fckeditor", "ckfinder", "timthumb.php", "revslider", "config.json.bak", "adminer.php", "web-inf", "passwd",
    "w00tw00t", "phppath", "muieblackcat", "telescope", "_ignition", "backup.sql", "dump.sql", "backup.zip", "id_rsa",
    "wp-file-manager", "license.txt.bak", "user.ini", "sumthin", "vtiger", "xampp", "sqladmin", "mysqladmin",
    "phpmyadmin2", "dbadmin",
)
_API = ("api", "wp-json", "graphql", "rest", "rpc", "jsonrpc", "ajax", "admin-ajax.php", "soap", "odata", "_api")
_DOWNLOADS = (
    "zip", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "tar", "deb", "rpm", "iso", "dmg", "exe", "msi", "apk", "jar",
    "pdf", "epub", "log", "csv", "tsv", "sql", "bak", "bin", "img",
)
# fmt: on

_LONGEST = 32
_SLASH, _DOT, _QUESTION, _STAR, _LESS, _AND = b"/.?*<&"
_ANYWHERE, _LAST, _SUFFIX, _PREFIX = range(4)
"""Where a text counts: as any name of a path, as its last name, as a suffix, or at the beginning of its last name."""


def _index() -> tuple[Any, Any]:
    """
    Return all texts as rows (size, topic, place, bytes), sorted, and the first row by size and first byte (from 1 on).
    """
    texts = [
        *((text, BROWSER, _LAST) for text in _BROWSER),
        *((text, BROWSER, _PREFIX) for text in _BROWSER_PREFIXES),
        *((text, LOGIN, _LAST) for text in _LOGIN),
        *((text, LOGIN, _ANYWHERE) for text in _LOGIN_FOLDER),
        *((text, FEED, _LAST) for text in (*_FEED, *_FEED_PARAMETERS)),
        *((text, PROBE, _ANYWHERE) for text in _PROBE),
        *((text, API, _ANYWHERE) for text in _API),
        *((text, DOWNLOAD, _SUFFIX) for text in _DOWNLOADS),
    ]
    texts.sort(key=lambda one: (one[2] == _PREFIX, len(one[0]) * (one[2] != _PREFIX), one[0]))
    table = np.zeros((len(texts) + 1, _LONGEST + 3), np.uint8)
    first = np.zeros((_LONGEST, 256), np.uint8)
    for number, (text, topic, place) in enumerate(texts):
        table[number, : 3 + len(text)] = [len(text), topic, place, *text.encode()]
        at = 0 if place == _PREFIX else len(text)
        if not first[at, ord(text[0])]:
            first[at, ord(text[0])] = number + 1
    return table, first


_TABLE, _FIRST = _index()


@Kernel
def _topic_of_name(data: Any, start: int, end: int, place: int) -> int:
    """Return the topic of the name between *start* and *end* of a path at this *place*, `NO_TOPIC` if it has none."""
    size = 0 if place == _PREFIX else end - start
    if end <= start or size >= _LONGEST:
        return NO_TOPIC
    byte = data[start]
    if 65 <= byte <= 90:
        byte += 32
    row = _FIRST[size, byte]
    if not row:
        return NO_TOPIC
    row -= 1
    while _TABLE[row, 3] == byte and (place == _PREFIX or _TABLE[row, 0] == size):
        if _TABLE[row, 2] == place or (place == _LAST and _TABLE[row, 2] == _ANYWHERE):
            length = _TABLE[row, 0]
            k = 0
            while k < length and start + k < end:
                other = data[start + k]
                if 65 <= other <= 90:
                    other += 32
                if other != _TABLE[row, 3 + k]:
                    break
                k += 1
            if k == length:
                return int(_TABLE[row, 1])
        row += 1
    return NO_TOPIC


@Kernel
def topic_of_target(data: Any, start: int, end: int) -> int:
    """
    Return the topic of a target, whatever the method.

    A name that is probed for counts wherever it stands in the path. What does not begin with a slash is no path of this
    site: somebody looks for an open proxy, or sends what is no HTTP.
    """
    if end == start:
        return NO_TOPIC
    if data[start] != _SLASH:
        return NO_TOPIC if data[start] == _STAR and end - start == 1 else PROBE
    found = NO_TOPIC
    name = start + 1
    dot = -1
    i = start + 1
    while i < end and data[i] != _QUESTION:
        byte = data[i]
        if byte == _SLASH:
            if i > name and i + 1 < end and data[i + 1] != _QUESTION:
                inside = _topic_of_name(data, name, i, _ANYWHERE)
                if inside == PROBE:
                    return PROBE
                found = inside or found
            if i + 1 < end and data[i + 1] != _QUESTION:
                name = i + 1
                dot = -1
        elif byte == _DOT:
            if dot == i - 1 and dot >= name:
                return PROBE
            dot = i
        elif byte == _LESS:
            return PROBE
        i += 1
    stop = i
    if stop > name and data[stop - 1] == _SLASH:
        stop -= 1
    parameter = i + 1
    while i < end:
        if data[i] == _LESS or (data[i] == _DOT and i + 2 < end and data[i + 1] == _DOT and data[i + 2] == _SLASH):
            return PROBE
        i += 1
        if i == end or data[i] == _AND:
            if _topic_of_name(data, parameter, i, _LAST) == FEED:
                found = FEED
            parameter = i + 1
    last = _topic_of_name(data, name, stop, _LAST) or _topic_of_name(data, name, stop, _PREFIX)
    if not last and dot >= name:
        last = _topic_of_name(data, dot + 1, stop, _SUFFIX)
    return FEED if found == FEED else last or found


@Kernel
def with_method(topic: int, reads: bool) -> int:
    """
    Return the topic of a request for a target with *topic*. *reads*: its method is GET or HEAD.

    Passwords are sent. A client that only requests a log-in page may check whether there is one.
    """
    if reads:
        return PROBE if topic == LOGIN else topic
    return topic if topic in (LOGIN, PROBE) else SENT


@Kernel
def is_call(topic: int) -> bool:
    """Return whether a request with this topic is no page, even if its target looks like one."""
    return topic in (BROWSER, FEED, API)
