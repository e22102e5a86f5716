"""What else speaks HTTP: git and curl get what they would get without Hedgerow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .servers import Nginx, Protect, run


def test_git_clone(
    nginx: Callable[..., Nginx],
    protect: Callable[..., Protect],
    repository: Path,
    program: Callable[[str], str],
    tmp_path: Path,
) -> None:
    hedgerow = protect(nginx(repository).url)
    run([program("git"), "clone", "-q", f"{hedgerow.url}/repository.git", "copy"], cwd=tmp_path)
    for path in (repository / "work").glob("*.txt"):
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()
    assert hedgerow.blocked() == {}


def test_curl(
    site: Nginx,
    hedgerow: Protect,
    documentation: Path,
    program: Callable[[str], str],
    address: Callable[[], str],
    tmp_path: Path,
) -> None:
    who = address()

    def curl(*options: str) -> str:
        return run([program("curl"), "-sS", "--noproxy", "*", "--interface", who, *options], cwd=tmp_path)

    for name in ("stylesheet.css", "gin.svg"):
        bare, ours = (_headers(curl("-I", f"{url}/{name}")) for url in (site.url, hedgerow.url))
        assert ours == bare
        assert ours["content-length"] == str((documentation / name).stat().st_size)
    html = ("-H", "Accept: text/html")
    bare, ours = (_headers(curl("-I", *html, f"{url}/index.html")) for url in (site.url, hedgerow.url))
    assert set(bare) - set(ours) <= {"content-length", "accept-ranges"}
    assert ours["etag"].startswith("W/")

    # A part of a file is a part; of a page, which for a browser is not the site's to the byte, it is the whole.
    style = (documentation / "stylesheet.css").read_text()
    assert curl("-r", "10-59", f"{hedgerow.url}/stylesheet.css") == style[10:60]
    assert curl("-r", "-20", f"{hedgerow.url}/stylesheet.css") == style[-20:]
    part = curl("-i", "-r", "0-99", *html, "-H", "Accept-Language: en", f"{hedgerow.url}/index.html")
    assert part.startswith("HTTP/1.1 200 ")
    assert part.endswith("</html>")

    # What has been fetched is not fetched again while it is the same.
    known = f"If-None-Match: {ours['etag']}"
    assert curl("-o", "same", "-w", "%{http_code}", *html, "-H", known, f"{hedgerow.url}/index.html") == "304"
    assert curl("--compressed", f"{hedgerow.url}/stylesheet.css") == style
    assert curl("--http1.0", f"{hedgerow.url}/stylesheet.css") == style
    assert hedgerow.blocked() == {}


def _headers(text: str) -> dict[str, str]:
    """The headers of an answer, without those that name the moment or the connection."""
    pairs = (line.partition(": ")[::2] for line in text.splitlines()[1:] if line)
    return {name.lower(): value for name, value in pairs if name.lower() not in {"date", "connection"}}
