"""Short commands: what they print, and with which exit status they end."""

from __future__ import annotations

import re
from pathlib import Path

from goldens.checkout import Checkout
from goldens.normalise import MOMENTS, normalise

_WRONG_USE = (
    ("--version",),
    (),
    ("nonsense",),
    ("report",),
    ("report", "missing.log"),
    ("report", "empty.log"),
    ("report", "one.log", "--nonsense"),
    ("report", "one.log", "--engine", "nonsense"),
    ("report", "one.log", "--master", "spark://host:7077"),
    ("report", "one.log", "--by", "nonsense"),
    ("report", "one.log", "--format", "nonsense"),
    ("report", "one.log", "--export", "nonsense=x"),
    ("report", "one.log", "--for", "nonsense"),
    ("report", "one.log", "--json", "missing/file"),
    ("report", "one.log", "--json", "-", "--html", "-"),
    ("report", "one.log", "--model", "one.log"),
    ("replay", "missing.log"),
    ("replay", "one.log", "--json", "missing/file"),
    ("protect",),
    ("protect", "nonsense"),
    ("protect", "http://127.0.0.1:1", "--listen", "nonsense"),
    ("protect", "http://127.0.0.1:1", "--workers", "0"),
    ("serve",),
    ("client", "http://127.0.0.1:1"),
    ("client", "http://127.0.0.1:1", "--token-file", "missing"),
    ("explain", "nonsense"),
    ("explain", "1A2B-3C4D"),
    ("crawl", "http://127.0.0.1:1/", "--order", "nonsense"),
    ("crawl", "http://192.0.2.1/", "--order", "depth"),
    ("mark", "missing", "--output", "out", "--host", "example.org"),
    ("keys", "nonsense"),
    ("train", "missing.log"),
)
_STATE = (
    ("visitors", "show"),
    ("visitors", "block", "192.0.2.5", "--for", "1h", "--reason", "because"),
    ("visitors", "block", "192.0.2.5", "--for", "nonsense"),
    ("visitors", "forgive", "192.0.2.5"),
    ("campaigns", "show"),
    ("models", "show"),
    ("models", "promote"),
    ("models", "back"),
    ("models", "drop"),
    ("bots", "show"),
    ("bots", "check", "192.0.2.1", "--user-agent", "Googlebot/2.1"),
    ("bots", "check", "nonsense"),
    ("migrate",),
)
_LISTS = (
    ("lists", "show"),
    ("lists", "add", "black", "192.0.2.0/24", "AS64496", "--reason", "a scraper"),
    ("lists", "add", "white", "192.0.2.7", "account:ann", "agent:*Monitor*", "--author", "ann"),
    ("lists", "add", "black", "2001:db8::/32", "--until", "2099-01-01T00:00:00Z"),
    ("lists", "add", "black", "nonsense/99"),
    ("lists", "add", "grey", "192.0.2.1"),
    ("lists", "change", "black", "192.0.2.0/24", "--reason", "another reason"),
    ("lists", "change", "black", "192.0.2.99", "--reason", "not there"),
    ("lists", "import", "plain.txt", "--reason", "imported"),
    ("lists", "import", "entries.csv"),
    ("lists", "import", "entries.json", "--author", "bob"),
    ("lists", "import", "faulty.txt"),
    ("lists", "import", "faulty.txt", "--skip-bad"),
    ("lists", "show"),
    ("lists", "show", "192.0.2.7"),
    ("lists", "show", "--list", "white", "--json"),
    *(("lists", "export", form) for form in (
        "plain", "csv", "json", "nginx-deny", "nginx-geo", "apache", "haproxy", "nftables", "ipset", "nonsense")),
    ("lists", "remove", "black", "192.0.2.0/24"),
    ("lists", "remove", "black", "192.0.2.0/24"),
)  # fmt: skip
_SIMULATED = ("simulate", "suppression", "--pages", "300", "--links", "20", "--fixed", "5", "--repeats", "2",
              "--crews", "1,2,5", "--first-pages", "30", "--workers", "3")  # fmt: skip
_INPUTS = {
    # No name server answers there: nothing is asked of the network.
    "hedgerow.toml": 'directory = "state"\n[bots]\ndns = false\nresolver = "127.0.0.1:1"\n',
    "empty.log": "",
    "one.log": '192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n',
    "plain.txt": "# a list\n198.51.100.1 # one\n198.51.100.0/28 ; some\n2001:db8:1::1\n",
    "entries.csv": "subject,list,reason,until\n203.0.113.1,white,ours,\n203.0.113.2,black,theirs,2099-01-01\n",
    "entries.json": '[{"subject": "203.0.113.9", "list": "black", "reason": "json"}]\n',
    "faulty.txt": "198.51.100.77\nnonsense\n198.51.100.999\n",
    "site/index.html": '<!DOCTYPE html><title>x</title><a href="/page.html">Page</a> <a href="sub/">Sub</a>\n',
    "site/sub/index.html": '<!DOCTYPE html><title>y</title><a href="../index.html">Home</a>\n',
    "site/style.css": "a{}\n",
}


def record(checkout: Checkout, folder: Path) -> None:
    """Run all commands in one folder, in their order."""
    here = checkout.folder("commands")
    for name, text in _INPUTS.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    for name, commands in (("wrong_use", _WRONG_USE), ("state", _STATE), ("lists", _LISTS)):
        parts = []
        outputs = checkout.run_all([(command, {}) for command in commands], here)
        for command, done in zip(commands, outputs, strict=True):
            text = done.text().replace(str(here), "(folder)")
            parts.append(f"$ hedgerow {' '.join(command)}\n{normalise(text, MOMENTS)}")
        (folder / f"commands-{name}.txt").write_text("\n".join(parts), "utf-8")
    (folder / "commands-mark.txt").write_text(_marked(checkout, here), "utf-8")
    (folder / "commands-simulate.txt").write_text(_simulated(checkout, here), "utf-8")
    (folder / "commands-keys.txt").write_text(_keys(checkout, here), "utf-8")


def _marked(checkout: Checkout, here: Path) -> str:
    done = checkout.run("mark", "site", "--output", "out", "--host", "example.org", cwd=here)
    out = here / "out"
    pages = [f"\n--- {path.relative_to(out)}\n{path.read_text()}" for path in sorted(out.rglob("*")) if path.is_file()]
    return done.text() + "".join(pages)


def _simulated(checkout: Checkout, here: Path) -> str:
    texts = [checkout.run(*_SIMULATED, cwd=here).text()]
    texts.append(checkout.run(*_SIMULATED, "--json", "-", "--plot", "plot.svg", cwd=here).text())
    return "\n".join([*texts, (here / "plot.svg").read_text()])


def _keys(checkout: Checkout, here: Path) -> str:
    """Keys are random: all that is recorded is their form."""
    made = checkout.run_all([(("keys", "new"), {}), (("keys", "rotate"), {"HEDGEROW_KEYS": ""})], here)
    text = "\n".join(done.text().replace(str(here), "(folder)") for done in made)
    text += "".join(f"\n--- {path.name}\n{path.read_text()}" for path in sorted((here / "state").glob("*.key")))
    return normalise(re.sub(r"\b\d{10}\b", "(moment)", re.sub(r"\b[0-9a-f]{128}\b", "(secret)", text)), MOMENTS)
