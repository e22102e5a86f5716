"""
A detector is one file: the example of `docs/detectors.md`, in a directory that `HEDGEROW_DETECTORS` names.

It decides in the ASGI middleware, and appears in `explain`, the documentation, `replay` and `report`. Each of these is
a process of its own, as an operator would start it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from report.logs import BROWSER, line

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
HARVESTER = "HarvestBot/1.0"
SENTENCE = "The user agent contains harvest."
SITE = """
import asyncio, json, sys
import httpx
from hedgerow.asgi import Hedgerow

async def site(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<html><body>A page.</body></html>"})

async def main():
    hedgerow = Hedgerow(site, config="hedgerow.toml")
    told = []
    for address, agent in json.loads(sys.argv[1]):
        transport = httpx.ASGITransport(hedgerow, client=(address, 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://example.org") as client:
            answer = await client.get("/", headers={"user-agent": agent})
            told.append([answer.status_code, answer.headers.get("hedgerow-decision", "")])
    hedgerow.site.close()
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.fixture
def toy(tmp_path):
    """A folder with the example as its only detector, and settings that keep everything in this folder."""
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "detectors.md").read_text("utf-8"), flags=re.DOTALL)
    (tmp_path / "detectors").mkdir()
    (tmp_path / "detectors" / "words.py").write_text(example)
    (tmp_path / "hedgerow.toml").write_text("directory = 'state'\n")
    return tmp_path


def python(folder: Path, *arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEDGEROW")}
    environment["HEDGEROW_DETECTORS"] = str(folder / "detectors")
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def hedgerow(folder: Path, *arguments: str) -> str:
    return python(folder, "-m", "hedgerow", *arguments)


def ask(folder: Path, *requests: tuple[str, str]) -> list[tuple[int, str]]:
    return [(status, told) for status, told in json.loads(python(folder, "-c", SITE, json.dumps(requests)))]


@pytest.fixture
def log(toy):
    """A person and the harvester, both with browsers that are otherwise alike."""
    harvest = BROWSER + " " + HARVESTER
    lines = [line("192.0.2.1", 1_700_000_000 + 60 * k, f"/{k}") for k in range(6)]
    lines += [line("192.0.2.2", 1_700_000_010 + 60 * k, f"/{k}", agent=harvest) for k in range(6)]
    (toy / "access.log").write_text("".join(sorted(lines, key=lambda text: text.split("[")[1])))
    return toy / "access.log"


def test_it_decides_in_the_middleware_and_explain_knows_why(toy):
    person, harvester, again = ask(toy, ("192.0.2.1", BROWSER), ("192.0.2.2", HARVESTER), ("192.0.2.2", BROWSER))
    assert person == (200, "")
    assert harvester[0] == again[0] == 403, "it is blocked"
    reference = re.fullmatch(r"refuse; code=unwanted-word; ref=([0-9A-F-]{9})", harvester[1])[1]
    told = hedgerow(toy, "explain", reference, "--config", "hedgerow.toml")
    assert f"evidence    {SENTENCE} [unwanted-word, weight 1]" in told


def test_its_settings_are_read_and_checked(toy):
    (toy / "hedgerow.toml").write_text("directory = 'state'\n[words]\nwords = ['scoop']\n")
    assert [status for status, _ in ask(toy, ("192.0.2.2", HARVESTER), ("192.0.2.3", "Scooper"))] == [200, 403]
    (toy / "hedgerow.toml").write_text("directory = 'state'\n[words]\nenabled = false\n")
    assert [status for status, _ in ask(toy, ("192.0.2.4", HARVESTER))] == [200]
    (toy / "hedgerow.toml").write_text("[words]\nwords = 5\n")
    with pytest.raises(AssertionError, match=r"hedgerow.toml:2: words.words: must be a list, is 5"):
        hedgerow(toy, "check", "hedgerow.toml")


def test_explain_tells_what_its_code_means(toy):
    told = hedgerow(toy, "explain", "unwanted-word")
    assert "detector    words: The visitor's user agent is on a list of unwanted words." in told
    assert "follows     refuse, block for 600 seconds (by default)" in told
    assert "runs        live, in `hedgerow replay` and in `hedgerow report`" in told


def test_the_documentation_has_it(toy):
    assert "| `unwanted-word` | 1.0 | The user agent contains a listed word. |" in python(
        toy, "-m", "hedgerow.detectors"
    )
    docs = toy / "docs"
    docs.mkdir()
    for name in ("detectors.md", "settings.md"):
        (docs / name).write_bytes((DOCS / name).read_bytes())
    python(toy, "-m", "hedgerow.detectors", "docs")
    assert "\n## words\n\nThe visitor's user agent is on a list" in (docs / "detectors.md").read_text()
    assert "\n### words\n" in (docs / "settings.md").read_text()
    assert "| block_for | `600.0` | Seconds. |" in (docs / "settings.md").read_text()


def test_replay_has_it(toy, log):
    hedgerow(toy, "replay", str(log), "--json", "replay.json", "--config", "hedgerow.toml")
    found = {one["visitor"]: one for one in json.loads((toy / "replay.json").read_text())["visitors"]}
    assert found["192.0.2.1"]["decisions"]["pass"] == 6
    assert found["192.0.2.2"]["decisions"]["refuse"] == 6
    assert [one for one in found["192.0.2.2"]["evidence"] if one["detector"] == "words"] == [
        {"detector": "words", "code": "unwanted-word", "weight": 1.0, "text": SENTENCE}
    ]


def test_report_has_it(toy, log):
    hedgerow(toy, "report", str(log), "--json", "report.json", "--config", "hedgerow.toml")
    found = {one["source"]: one for one in json.loads((toy / "report.json").read_text())["sources"]}
    assert found["192.0.2.2"]["label"] == "crawler"
    assert {"detector": "words", "code": "unwanted-word", "weight": 1.0, "text": SENTENCE} in (
        found["192.0.2.2"]["evidence"]
    )
    assert "words" not in {one["detector"] for one in found["192.0.2.1"]["evidence"]}
    hedgerow(toy, "report", str(log), "--json", "hidden.json", "--config", "hedgerow.toml", "--ignore-user-agent")
    assert "words" not in (toy / "hidden.json").read_text()
