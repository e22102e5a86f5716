"""What strangers have in common does not make them a campaign: robots.txt, icons, the full hour, a network."""

from __future__ import annotations

import json
from random import Random

import pytest

from hedgerow.report.pipeline import Options, make
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from report.logs import line, site_log

START = 1_700_006_400.0
"""On a full hour."""

HOUR = 3600.0
AGENTS = [
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
]


def campaigns(path, lines, **options) -> list[set[str]]:
    path.write_text(site_log() + "".join(lines))
    with Tables([str(path)], memory=500_000_000) as tables:
        data = json.loads("".join(make(tables, Bots(known=known_bots()), Options(**options)).to_json()))
    return [set(one["members"]) for one in data["campaigns"]]


def strangers(count: int) -> list[str]:
    """Addresses in different networks."""
    return [f"{20 + 3 * n}.{n}.7.9" for n in range(count)]


@pytest.mark.parametrize("target", ["/robots.txt", "/browserconfig.xml", "/.well-known/apple-app-site-association"])
@pytest.mark.parametrize("hidden", [True, False])
def test_a_file_that_everybody_asks_for_joins_nobody(tmp_path, target, hidden):
    """It is missing, and each asks for it again and again."""
    chance, lines = Random(1), []
    for n, source in enumerate(strangers(30)):
        for _ in range(5):
            at = START + chance.random() * 40 * HOUR
            lines.append(line(source, at, target, status=404, agent=f"agent-{n}/1.0"))
    assert not any(members & set(strangers(30)) for members in campaigns(tmp_path / "log", lines, ignore_agents=hidden))


def test_the_full_hour_joins_nobody(tmp_path):
    """Timers of strangers that start on the hour, each with a page of its own."""
    chance, lines = Random(2), []
    for n, source in enumerate(strangers(12)):
        for hour in range(60):
            at = START + hour * HOUR + chance.randrange(40)
            lines.append(line(source, at, f"/topic/{n}?x={hour}", agent=f"agent-{n}/1.0"))
    assert not any(members & set(strangers(12)) for members in campaigns(tmp_path / "log", lines, ignore_agents=True))


def test_different_bots_in_one_network_are_different_campaigns(tmp_path):
    """They share a network; their user agents say that they are three bots."""
    chance, lines = Random(3), []
    sources = [f"45.67.{n % 4}.{n}" for n in range(24)]
    for n, source in enumerate(sources):
        agent = f"{AGENTS[n % 3]} {n}"
        for k in range(12):
            at = START + chance.random() * 40 * HOUR
            lines.append(line(source, at, f"/topic/{(7 * n + k) % 60}", agent=agent))
    shown = campaigns(tmp_path / "log", lines)
    bots = [{sources.index(one) % 3 for one in members & set(sources)} for members in shown]
    assert [bot for bot in bots if bot]
    assert all(len(bot) <= 1 for bot in bots)
    # Where user agents are hidden, the network is all that is known.
    hidden = campaigns(tmp_path / "log", lines, ignore_agents=True)
    assert any(set(sources) <= members for members in hidden)
