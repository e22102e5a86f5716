"""What the arena measured, as docs/arena.md, as a table for the README, and as one page of HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from statistics import median

from bench.arena import page
from bench.arena.cells import CPU, HASTE, PEOPLE, Cell
from bench.arena.makes import makes
from bench.arena.protections import PROTECTIONS
from bench.arena.stage import REAL_SITES
from hedgerow.lab.train.measures import wilson

NAMES = {
    "none": "no protection",
    "limit_req": "nginx `limit_req`, 10 per second, burst 20",
    "haproxy": "HAProxy stick table, 100 in 3 s",
    "mod_evasive": "Apache mod_evasive, 50 in 1 s",
    "fastapi-guard": "fastapi-guard, 100 in 60 s",
    "crowdsec": "CrowdSec 1.4, crawl scenario",
    "observing": "Hedgerow, observing",
    "hedgerow": "Hedgerow",
}
_TEMPLATE = Path(__file__).with_name("arena.template.md")
_PEERS = {
    "[Anubis](https://github.com/TecharoHQ/anubis)": "Shows a page with a proof of work before the site. Its README"
    " calls this a bit of a nuclear response: it blocks smaller scrapers and may block good bots. It names no share of"
    " crawlers that it stops.",
    "[go-away](https://github.com/WeebDataHoarder/go-away)": "Uses rules and challenges, with or without JavaScript,"
    " against low-effort mass scraping. Its README says that scrapers can adapt by driving a browser, which is slow and"
    " expensive for them.",
    "[SafeLine](https://github.com/chaitin/SafeLine)": "A web application firewall that runs in Docker. Its README is"
    " about attacks on applications. It names no figure for crawlers.",
}


def write(found: Sequence[Cell], folder: Path) -> list[Path]:
    """Write the three files into *folder* and return their paths; none where nothing was measured."""
    if not any(cell.crawler != CPU for cell in found):
        return []
    texts = {"arena.md": _document(found), "arena-summary.md": _summary_page(found), "arena.html": _html(found)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def _crawls(found: Iterable[Cell], **wanted: str) -> list[Cell]:
    return [
        cell
        for cell in found
        if cell.crawler != CPU and all(getattr(cell, name) == value for name, value in wanted.items())
    ]


def _by_crawler(found: Sequence[Cell], site: str, protection: str) -> dict[str, list[Cell]]:
    its: dict[str, list[Cell]] = {}
    for cell in _crawls(found, site=site, protection=protection):
        its.setdefault(cell.crawler, []).append(cell)
    return its


def complete(found: Sequence[Cell]) -> list[Cell]:
    """The cells of crawlers that were measured behind every protection that is shown for their site."""
    kept = []
    for site in REAL_SITES:
        shown = {cell.protection for cell in _crawls(found, site=site)}
        for make in makes():
            its = _crawls(found, site=site, crawler=make.name)
            if {cell.protection for cell in its} == shown:
                kept += its
    return kept


def _share(found: Sequence[Cell], site: str, protection: str) -> str:
    shares = [median(one.share for one in its) for its in _by_crawler(found, site, protection).values()]
    return f"{100 * median(shares):.1f} % ({len(shares)})" if shares else ""


def _of_unprotected(found: Sequence[Cell], protection: str) -> str:
    """Pages of each crawler, compared with those that it got without protection: the median."""
    shares = []
    for site in REAL_SITES:
        without = _by_crawler(found, site, "none")
        for name, its in _by_crawler(found, site, protection).items():
            pages = median(one.pages for one in without.get(name, [])) if name in without else 0
            shares += [median(one.pages for one in its) / pages] if pages else []
    return f"{100 * median(shares):.0f} %" if shares else ""


def _people(found: Sequence[Cell], protection: str) -> str:
    cells = _crawls(found, protection=protection)
    seen, people = sum(cell.people_disturbed for cell in cells), sum(cell.people for cell in cells)
    if not people:
        return ""
    low, high = wilson(seen, people)
    return f"{seen} of {people} ({100 * low:.1f} to {100 * high:.1f} %)"


def _cpu(found: Sequence[Cell], protection: str) -> str:
    its = [cell.cpu_ms for cell in found if cell.crawler == CPU and cell.protection == protection]
    return f"{median(its):.2f} ms" if its else "0" if protection == "none" else ""


def summary(found: Sequence[Cell]) -> list[str]:
    """The table of the README: one row for each protection."""
    everything, found = found, complete(found)
    sites = [site for site in REAL_SITES if _crawls(found, site=site)]
    head = ["protection", *(f"share of the {site}, median" for site in sites), "pages, of those without protection"]
    head += ["people disturbed", "CPU per request"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    for protection in PROTECTIONS:
        if not _crawls(found, protection=protection):
            continue
        row = [
            NAMES[protection],
            *(_share(found, site, protection) for site in sites),
            _of_unprotected(found, protection),
        ]
        lines.append("| " + " | ".join([*row, _people(found, protection), _cpu(everything, protection)]) + " |")
    return lines


def _pages(cells: Sequence[Cell]) -> str:
    if not cells:
        return ""
    still = "\\*" if all(cell.end == "stopped" for cell in cells) else ""
    count = f" ({len(cells)})" if len(cells) > 1 else ""
    return f"{median(cell.pages for cell in cells):g}{still}{count}"


def pages_table(found: Sequence[Cell], site: str) -> list[str]:
    """Pages that each crawler obtained, behind each protection."""
    shown = [protection for protection in PROTECTIONS if _crawls(found, site=site, protection=protection)]
    lines = [f"| crawler | kind | {' | '.join(shown)} |", "|---|---|" + "--:|" * len(shown)]
    for make in makes():
        its = {protection: _crawls(found, site=site, protection=protection, crawler=make.name) for protection in shown}
        if any(its.values()):
            lines.append(f"| {make.name} | {make.kind} | {' | '.join(_pages(its[one]) for one in shown)} |")
    return lines


def _facts(found: Sequence[Cell]) -> str:
    crawls = _crawls(found)
    crawlers, days = len({cell.crawler for cell in crawls}), sorted({cell.day for cell in found})
    runs = max(cell.run for cell in crawls)
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    people = sum(cell.people_requests for cell in crawls)
    longest = max(cell.limit for cell in crawls)
    return (
        f"Measured on {when}: {len(crawls)} cells with {crawlers} crawlers. Each crawler had {longest:.0f} s."
        f" Most runs of one cell: {runs}. People made {people:,} requests."
    )


def _summary_page(found: Sequence[Cell]) -> str:
    lines = ["<!-- Written by `make arena`. -->", *summary(found), "", _facts(found), ""]
    return "\n".join(lines)


def _document(found: Sequence[Cell]) -> str:
    pages = ""
    for site in REAL_SITES:
        if _crawls(found, site=site):
            table = "\n".join(pages_table(found, site))
            pages += f"## Pages obtained: {site}\n\n{_SITE_TEXTS[site]}\n\n{table}\n\n"
    return _TEMPLATE.read_text().format(
        facts=_facts(found),
        summary="\n".join(summary(found)),
        pages=pages,
        people=PEOPLE,
        haste=f"{HASTE:g}",
        peers="\n".join(f"| {name} | {claim} |" for name, claim in _PEERS.items()),
    )


_SITE_TEXTS = {
    "documentation": "PostgreSQL's documentation, 1,169 static pages, served by nginx.",
    "wiki": "DokuWiki under PHP with 300 pages. Forms and old versions of a page do not count as pages.",
}


def _html(found: Sequence[Cell]) -> str:
    """One page without anything from elsewhere."""
    sections = [f"<p>{escape(_facts(found))}</p>", "<h2>By protection</h2>", _table(summary(found))]
    for site in REAL_SITES:
        if not _crawls(found, site=site):
            continue
        rows = {
            _plain(NAMES[protection]): [
                (name, median(one.share for one in its))
                for name, its in _by_crawler(complete(found), site, protection).items()
            ]
            for protection in PROTECTIONS
            if _crawls(found, site=site, protection=protection)
        }
        sections += [
            f"<h2>{site.capitalize()}</h2><p>{escape(_SITE_TEXTS[site])}</p>",
            page.dots(f"Share of the {site} that each crawler obtained", rows),
            _table(pages_table(found, site)),
        ]
    costs = {_plain(NAMES[one]): _number(_cpu(found, one)) for one in PROTECTIONS if _cpu(found, one)}
    sections += ["<h2>CPU per request</h2>", page.bars("Milliseconds of processor time per request", costs)]
    peers = ["| protection | claim (not measured) |", "", *(f"| {name} | {claim} |" for name, claim in _PEERS.items())]
    sections += ["<h2>Not measured: what their documentation says</h2>", _table(peers)]
    data = json.dumps([asdict(cell) for cell in found], separators=(",", ":"))
    return page.document("Arena: what crawlers get", "\n".join(sections), data)


def _number(text: str) -> float:
    return float(text.partition(" ")[0])


def _plain(text: str) -> str:
    return text.replace("`", "")


def _table(lines: Sequence[str]) -> str:
    """A table in Markdown as one in HTML."""
    head, _, *rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    text = "<tr>" + "".join(f'<th scope="col">{_cell(one)}</th>' for one in head) + "</tr>"
    body = ""
    for first, *others in rows:
        body += f'<tr><th scope="row">{_cell(first)}</th>{"".join(f"<td>{_cell(one)}</td>" for one in others)}</tr>'
    return f'<div class="wide" tabindex="0"><table><thead>{text}</thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    linked = re.sub(r"\[(.+?)\]\((.+?)\)", r'<a href="\2">\1</a>', escape(_plain(text), quote=False))
    return linked.replace("\\", "")
