"""Lists of files as real servers write them, and pages that only look like one."""

from __future__ import annotations

import pytest

from hedgerow.markers.html.listing import is_listing

LONG = "a" * 60
NGINX = f"""<html>
<head><title>Index of /files/</title></head>
<body>
<h1>Index of /files/</h1><hr><pre><a href="../">../</a>
<a href="sub%20folder/">sub folder/</a>                        01-Jan-2026 00:00       -
<a href="{LONG}.html">{LONG[:47]}..&gt;</a> 01-Jan-2026 00:00      10
<a href="README">README</a>                                    01-Jan-2026 00:00      10
</pre><hr></body></html>"""
APACHE = """<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /files</title></head><body><h1>Index of /files</h1><table>
<tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
<tr><td><a href="/">Parent Directory</a></td></tr>
<tr><td><a href="a.html">a.html</a></td></tr><tr><td><a href="b.tar.gz">b.tar.gz</a></td></tr>
</table><address>Apache Server at 127.0.0.1 Port 80</address></body></html>"""
PYTHON = """<!DOCTYPE HTML><html lang="en"><head><title>Directory listing for /files/</title></head><body><ul>
<li><a href="a%26b.html">a&amp;b.html</a></li></ul></body></html>"""
CADDY = """<html><head><title>files</title></head><body><a href="/"><span class="dir">/</span></a>
<a href="?sort=name">Name</a> <a href="./a.html"><svg></svg><span class="name">a.html</span></a>
<a href="./b/"><span class="name">b</span></a> <a href="./c.txt"><span class="name">c.txt</span></a></body></html>"""
PROJECTS = """<!DOCTYPE html><html><head><title>Simple Index</title></head><body><h1>Simple Index</h1>
<a href="hedge/">hedge</a><br/><a href="row/">row</a><br/></body></html>"""
PROJECT = """<!DOCTYPE html><html><head><title>Links for hedge</title></head><body><h1>Links for hedge</h1>
<a href="/packages/hedge-1.0.tar.gz#sha256=00">hedge-1.0.tar.gz</a><br>
<a href="/packages/hedge-1.0-py3-none-any.whl#sha256=00">hedge-1.0-py3-none-any.whl</a><br></body></html>"""


@pytest.mark.parametrize("page", [NGINX, APACHE, PYTHON, CADDY, PROJECTS, PROJECT])
def test_a_list_of_files(page):
    assert is_listing(page.encode(), "/files/")
    assert not is_listing(page.encode(), "/files/index.html")


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<p>Nothing here.</p>",
        # A table of contents: all of its links are files of this folder, but people named them.
        "".join(f"<a href='{n}.html'>{n}. Chapter</a>" for n in range(20)),
        # A menu: its links are named after where they lead, but they are no files.
        "".join(f"<a href='/{name}'>{name}</a>" for name in ("blog", "docs", "about", "contact")),
        # A few files on an ordinary page.
        "<a href='a.zip'>a.zip</a> <a href='b.zip'>b.zip</a> <a href='/news'>News</a> <a href='/about.html'>About</a>",
        # The same link twice or more.
        "<a href='x.html'>x.html</a>" * 5,
    ],
)
def test_no_list_of_files(page):
    assert not is_listing(b"<!DOCTYPE html><title>A page</title>" + page.encode(), "/")


@pytest.mark.parametrize("part", [b"<a ", b"<a href=x>", b"<a href='", b"<a href=x>" + b"y" * 399, b"<a b=c "])
def test_a_hostile_page_takes_no_longer_than_others(part):
    assert not is_listing(part * 30_000, "/")
