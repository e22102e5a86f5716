"""`hedgerow report --follow` with a log that grows."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from report.logs import line, site_log


def wait_for(condition, what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_follows_the_log_until_it_is_interrupted(tmp_path, number):
    log, page = tmp_path / "access.log", tmp_path / "report.html"
    log.write_text(site_log())
    command = [sys.executable, "-m", "hedgerow", "report", str(log), "--follow", "--every", "1", "--html", str(page)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(page.exists, "no page")
        first = page.read_text()
        assert 'data-refresh="1"' in first
        at = 1_700_300_000.0
        with log.open("a") as file:
            for count in range(500):
                file.write(line("203.0.113.77", at + count / 10, f"/topic/{count}", agent="python-requests/2.0"))
        wait_for(lambda: "203.0.113.77" in page.read_text(), "the page is not up to date")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    # The second line may have been interrupted; the page comes before it.
    assert re.search(r"\d\d:\d\d:\d\d 2,040 lines; 10 crawlers made", out), out
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in {".log", ".html"}] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "needs one log"),
        (["a.log", "b.log"], "needs one log"),
        (["a.log", "--apply"], "cannot be combined"),
        (["a.log", "--json", "-"], "cannot be combined"),
    ],
)
def test_what_cannot_be_followed_is_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))
    result = CliRunner().invoke(app, ["report", *arguments, "--follow"])
    assert message in str(result.exception) or "no service" in str(result.exception), result.exception
