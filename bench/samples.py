"""A page of 40 KB with 116 links, and the headers of a browser."""

from __future__ import annotations

WORDS = (
    "A hedge is a row of shrubs kept close and trimmed, planted to mark the edge of a field and to keep cattle in. "
    "Where it is old it holds more than shrubs: ash and elm grown up through it, bramble, rose and traveller's joy. "
)


def page(links: int = 116, size: int = 40_000) -> bytes:
    """An ordinary page: head, navigation, headings, paragraphs with links in them."""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Hedges</title>\n'
        '<link rel="stylesheet" href="/style.css">\n<script src="/main.js" defer></script>\n</head>\n<body>\n'
    )
    filler = max(0, (size - len(head) - 120 * links) // links)
    text = (WORDS * (filler // len(WORDS) + 2))[:filler]
    sections = [
        f'<section id="s{n}"><h2>Part {n}</h2>\n'
        f'<p>{text} <a href="/docs/part-{n}.html">read on</a> here.</p></section>\n'
        for n in range(links)
    ]
    return (head + "".join(sections) + "</body>\n</html>\n").encode()


BROWSER = [
    (b"host", b"127.0.0.1:8080"),
    (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    (b"accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    (b"accept-language", b"en-GB,en;q=0.5"),
    (b"accept-encoding", b"gzip, deflate, br, zstd"),
    (b"cookie", b"sessionid=abcdefabcdef; csrftoken=123456"),
    (b"sec-fetch-dest", b"document"),
    (b"sec-fetch-mode", b"navigate"),
    (b"sec-fetch-site", b"same-origin"),
    (b"referer", b"http://127.0.0.1:8080/docs/"),
]
