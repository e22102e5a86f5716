"""The ban-list client: `hedgerow serve` with its lists, a sidecar and a middleware that follow them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from goldens.checkout import Checkout
from goldens.exchange import Answer, Bodies, Pairs, Request, head_of, send
from goldens.forms import Form, free_port, running, wait_for
from goldens.normalise import hide
from goldens.scenes import FIREFOX, PROGRAM

_TOKEN = "token-of-the-golden-client"
_SETTINGS = f"""
[bots]
dns = false

[[serve.clients]]
name = "shop"
token = "{_TOKEN}"

[density]
windows = [{{ count = 3, seconds = 600.0, of = "pages" }}]
"""
_BLACK, _CRAWLER = "127.0.0.66", "127.0.0.67"
_REFUSED = frozenset({403, 429})


class BanList(Form):
    """Lists at `hedgerow serve`, followed by `hedgerow client` and by the middleware in an application."""

    name = "ban-list"
    rewrites = False

    def start(self) -> None:
        self.sidecar, self.application = free_port(), free_port()
        self.nginx, self.map = self.folder / "nginx.conf", self.folder / "map.txt"
        url = f"http://127.0.0.1:{self.port}"
        command = ["-m", "hedgerow", "serve", "--listen", f"127.0.0.1:{self.port}", "--config", self.config]
        self.run("serve", self.port, command)
        token = self.folder / "token"
        token.write_text(_TOKEN)
        command = ["-m", "hedgerow", "client", url, "--token-file", token, "--listen", f"127.0.0.1:{self.sidecar}"]
        self.run("client", self.sidecar, [*command, "--nginx", self.nginx, "--map", self.map])
        self.run_application("client", self.application, url, _TOKEN)

    def ask_sidecar(self, address: str, client: Pairs = FIREFOX) -> Answer:
        about = [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/page/1"), ("X-Forwarded-Host", "example.org"),
                 ("X-Forwarded-Proto", "http"), ("X-Forwarded-For", address)]  # fmt: skip
        return send(self.sidecar, Request("GET", "/auth", "127.0.0.1", [*client, *about]))

    def ask_application(self, address: str, client: Pairs = FIREFOX) -> Answer:
        return send(self.application, Request("GET", "/page/1", address, list(client)))


def _is_refused(ask: Callable[[str], Answer], address: str) -> bool:
    return ask(address).status in _REFUSED


def record(checkout: Checkout, folder: Path) -> None:
    """Record what the client lets in and refuses, and the files that it writes."""
    lines: list[str] = []
    bodies = Bodies(folder)

    def note(words: str, answer: Answer) -> None:
        lines.append(f"\n--- {words}\n{head_of(answer)}{bodies.write(answer, words)}")

    def fill(form: Form) -> None:
        checkout.run("lists", "add", "black", _BLACK, "--author", "golden", "--config", form.config)

    with running(BanList, checkout, _SETTINGS, fill) as form:
        assert isinstance(form, BanList)
        for name, ask in (("sidecar", form.ask_sidecar), ("middleware", form.ask_application)):
            wait_for("the lists", partial(_is_refused, ask, _BLACK))
            note(f"{name}: black", ask(_BLACK))
            note(f"{name}: black, as a program", ask(_BLACK, PROGRAM))
            note(f"{name}: unknown", ask("127.0.0.68"))
        for _ in range(5):
            form.ask_application(_CRAWLER)
        for name, ask in (("sidecar", form.ask_sidecar), ("middleware", form.ask_application)):
            wait_for("the block", partial(_is_refused, ask, _CRAWLER))
            note(f"{name}: too many pages", ask(_CRAWLER))
        note("sidecar: a path that it does not have", send(form.sidecar, Request("GET", "/", "127.0.0.1", [])))
        note("sidecar: not trusted", send(form.sidecar, Request("GET", "/auth", "127.0.0.69", [])))
        wait_for("the block in the files", lambda: _CRAWLER in form.map.read_text())
        lines += [f"\n--- {path.name}\n{path.read_text()}" for path in (form.nginx, form.map)]
        text = hide("".join(lines), form.temporary())
    (folder / "ban-list.txt").write_text(text, "utf-8")
