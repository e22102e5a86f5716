"""Bots at a running proxy, with a name server on loopback: the true one gets clean pages, the false one none."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from fakedns import FakeDns

from .servers import PATIENCE, Nginx, Protect, clean_environment, wait_for

GOOGLE = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
GPT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"


def test_a_true_bot_and_a_false_one(
    nginx: Callable[..., Nginx],
    protect: Callable[..., Protect],
    documentation: Path,
    program: Callable[[str], str],
    address: Callable[[], str],
    tmp_path: Path,
) -> None:
    site = nginx(
        documentation, more='location = /robots.txt { return 200 "User-agent: *\\nDisallow: /sql-select\\n"; }'
    )
    true, false = address(), address()
    with FakeDns() as dns:
        dns.is_true(true, "crawl-1.googlebot.com")
        # Anybody may name his own address; and a name may only look alike.
        dns.names[false] = ["crawl-1.googlebot.com", "googlebot.com.evil.example"]
        dns.addresses["googlebot.com.evil.example"] = [false]
        hedgerow = protect(
            site.url, settings=f'[bots]\nresolver = "{dns.server}"\nai_training = "refuse"\n[marker]\nmode = "opaque"\n'
        )

        def curl(path: str, who: str, agent: str = GOOGLE) -> tuple[str, str]:
            out = tmp_path / "page"
            command = [program("curl"), "-sS", "--noproxy", "*", "--interface", who, "-A", agent, "-o", str(out)]
            command += ["-H", "Accept: text/html"]
            done = subprocess.run(
                [*command, "-w", "%{http_code}", hedgerow.url + path], env=clean_environment(), timeout=PATIENCE,
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            return done.stdout, out.read_text()

        # The first visits are neither trusted nor refused.
        for who in (true, false):
            status, page = curl("/index.html", who)
            assert (status, "/~" in page) == ("200", True)
        wait_for("the false one to be found out", lambda: curl("/index.html", false)[0] == "403")
        wait_for("the true one to be known", lambda: curl("/index.html", true)[1].count("/~") == 0)
        bare = (documentation / "index.html").read_text("utf-8", "replace")
        assert curl("/index.html", true) == ("200", bare)
        for n in range(150):
            assert curl("/index.html", true)[0] == "200", n

        # An outage changes nothing, and no settings read again do.
        dns.mood = "failing"
        hedgerow.running.process.send_signal(signal.SIGHUP)
        wait_for("the reload", lambda: "reloaded" in hedgerow.said())
        assert curl("/index.html", true) == ("200", bare)
        assert curl("/index.html", false)[0] == "403"
        assert curl("/index.html", false, "curl/8.5.0")[0] == "200", "nobody else behind its address is blocked"

        # What the site does not want is told so, by the gate and by robots.txt.
        assert curl("/index.html", address(), GPT)[0] == "403"
        status, robots = curl("/robots.txt", address(), GPT)
        assert status == "200"
        assert "User-agent: GPTBot\n" in robots

        # Who fetches what robots.txt closes loses its welcome.
        assert curl("/sql-select.html", true)[0] == "200"
        assert "/~" in curl("/index.html", true)[1]
        hedgerow.stop()
        codes = {visit["code"] for visit in hedgerow.visits()}
        assert {"false-claim", "unwanted-bot", "robots"} <= codes
