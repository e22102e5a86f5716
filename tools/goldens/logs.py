"""`hedgerow report` and `hedgerow replay`: JSON, HTML and terminal output for generated and for real logs."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
import tarfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from goldens import sample_log
from goldens.checkout import Checkout
from goldens.normalise import REPLAY_RULES, normalise

MOST_LINES = 200_000
"""Lines of a real log that are read: enough for all opinions, and a recording takes minutes, not hours."""
_NICE = 5
_ILIOU_FORMAT = '- - [$time_local] "$request" $status $body_bytes_sent "$http_referer" $cookie_sid "$http_user_agent"'
_COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
_SESSIONS = ("--by", "session", "--format", _ILIOU_FORMAT)
_EXPORTS = ("plain", "csv", "json", "nginx-deny", "nginx-geo", "apache", "haproxy", "nftables", "ipset")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "ignore-user-agent": ("--ignore-user-agent",),
    "by-address": ("--by", "address"),
    "by-network": ("--by", "network"),
    "by-account": ("--by", "account"),
    "top": ("--top", "2", "--sure", "0.5", "--host", "example.org"),
    "duckdb": ("--engine", "duckdb"),
}


def record_small_sample(checkout: Checkout, folder: Path) -> None:
    """Record the generated log in its most usual format."""
    log = _written(checkout, "access.log", sample_log.text_of("combined", bad=True))
    _report(checkout, log, folder / "sample", html=False)
    _replay(checkout, log, folder / "sample", "--host", sample_log.HOST)


def record_sample(checkout: Checkout, folder: Path) -> None:
    """Record the generated log in all formats, compressed, and with the options that change a result."""
    target = folder / "sample"
    for form in sample_log.FORMATS:
        text = sample_log.text_of(form, bad=form == "combined")
        log = _written(checkout, f"{form}.log", text)
        more = {
            "pattern": ("--format", sample_log.PATTERN),
            "session": ("--by", "session", "--format", f'{_COMBINED} "$cookie_sid"'),
        }.get(form, ())
        _report(checkout, log, target / form, *more, html=form in {"combined", "json"})
        if form not in {"pattern", "session"}:
            _replay(checkout, log, target / form, *(("--host", sample_log.HOST) if form == "combined" else ()))
    log = _written(checkout, "access.log", sample_log.text_of("combined", bad=True))
    for name, options in _OPTIONS.items():
        _report(checkout, log, target / f"combined-{name}", *options, html=name == "ignore-user-agent")
    _replay(checkout, log, target / "combined-propose", "--propose", "--top", "3")
    _replay(checkout, log, target / "combined-no-watch", "--no-watch")
    _exports(checkout, log, target / "exports")
    _inputs(checkout, log, target / "inputs")
    done = checkout.run("simulate", "containment", log.name, "--json", "-", cwd=log.parent)
    (target / "containment.txt").write_text(done.text(), "utf-8")


def record_data(checkout: Checkout, folder: Path, data: Path) -> None:
    """Record the logs under *data*; where there are none, say so."""
    if not (data / "logs").is_dir():
        print(f"golden: there are no logs in {data}; name a folder with --data", file=sys.stderr)
        return
    for path in sorted((data / "logs").glob("*.log.xz")):
        with lzma.open(path, "rb") as file:
            log = _written(checkout, "access.log", b"".join(islice(file, MOST_LINES)))
        name = path.name.removesuffix(".log.xz")
        _report(checkout, log, folder / "logs" / name)
        _report(checkout, log, folder / "logs" / f"{name}-ignore-user-agent", "--ignore-user-agent", html=False)
        _replay(checkout, log, folder / "logs" / name)
        print(f"    {name}", file=sys.stderr)
    for name, content, options in _labelled(data / "labelled"):
        log = _written(checkout, "access.log", content)
        _report(checkout, log, folder / "logs" / name, *options)
        if not options:
            _replay(checkout, log, folder / "logs" / name)


def _labelled(data: Path) -> Iterator[tuple[str, bytes, Sequence[str]]]:
    """The logs in archives: some name sessions and no addresses, some have quotes around each line."""
    archives = (
        (data / "iliou_phase1.tar.xz", _SESSIONS),
        (data / "vuln-scanners_2016_acunetix-netsparker-w3af.tar.xz", ()),
    )
    for path, options in archives:
        if not path.exists():
            continue
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda member: member.name):
                file = archive.extractfile(member) if member.name.endswith((".log", ".txt")) else None
                if file is not None:
                    yield f"{path.name.partition('_')[0]}-{Path(member.name).stem}", file.read(), options


def _written(checkout: Checkout, name: str, content: str | bytes) -> Path:
    """A file in a folder of its own, with the settings under which it is read."""
    path = checkout.folder("log") / name
    path.with_name("hedgerow.toml").write_text('directory = "state"\n')
    path.with_name("state").mkdir()
    path.with_name("state").joinpath("ranges.json").write_text(json.dumps(sample_log.PUBLISHED_RANGES))
    path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
    return path


def _report(checkout: Checkout, log: Path, target: Path, *options: str, html: bool = True) -> None:
    """Record one report: its JSON, its page and what it prints."""
    target.mkdir(parents=True, exist_ok=True)
    here = log.parent
    page = ("--html", "report.html") if html else ()
    done = _gently(checkout, ["report", log.name, "--json", "report.json", *page, *options], here)
    (target / "report.txt").write_text(done, "utf-8")
    for name in ("report.json", "report.html"):
        if (here / name).exists():
            (here / name).replace(target / name)


def _replay(checkout: Checkout, log: Path, target: Path, *options: str) -> None:
    """Record one replay: its JSON and what it prints."""
    target.mkdir(parents=True, exist_ok=True)
    made = log.parent / "replay.json"
    done = _gently(checkout, ["replay", log.name, "--json", made.name, *options], log.parent)
    (target / "replay.txt").write_text(normalise(done, REPLAY_RULES), "utf-8")
    if made.exists():
        (target / made.name).write_text(normalise(made.read_text("utf-8"), REPLAY_RULES), "utf-8")
        made.unlink()


def _exports(checkout: Checkout, log: Path, target: Path) -> None:
    target.mkdir(parents=True)
    wanted = [part for form in _EXPORTS for part in ("--export", f"{form}={target / form}.txt")]
    _gently(checkout, ["report", log.name, *wanted], log.parent)


def _inputs(checkout: Checkout, log: Path, target: Path) -> None:
    """The same lines from standard input, compressed, and in two files: the same report, whatever the input."""
    target.mkdir(parents=True)
    content, here = log.read_bytes(), log.parent
    half = content.index(b"\n", len(content) // 2) + 1
    (here / "1.gz").write_bytes(gzip.compress(content[:half]))
    (here / "2.xz").write_bytes(lzma.compress(content[half:]))
    (here / "all.bz2").write_bytes(bz2.compress(content))
    (here / "cut.gz").write_bytes(gzip.compress(content)[:-2000])
    for name, logs in (("two-files", ["2.xz", "1.gz"]), ("bzip2", ["all.bz2"]), ("cut", ["cut.gz"])):
        (target / f"{name}.txt").write_text(_gently(checkout, ["report", *logs, "--json", "-"], here), "utf-8")
    given = checkout.run("report", "-", "--json", "-", cwd=here, given=content).text()
    (target / "standard-input.txt").write_text(given, "utf-8")


def _gently(checkout: Checkout, command: list[str], here: Path) -> str:
    """What *command* prints; it gives way to other programs."""
    return checkout.run(*command, cwd=here, nice=_NICE).text()
