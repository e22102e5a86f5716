"""`hedgerow watch`: what it needs, and that it ends when told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from attached import attached


def start(tmp_path, text: str) -> subprocess.Popen[str]:
    (tmp_path / "hedgerow.toml").write_text(f'directory = "{tmp_path}"\n{text}')
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEDGEROW__")}
    return subprocess.Popen(
        attached([sys.executable, "-m", "hedgerow", "watch", "--config", str(tmp_path / "hedgerow.toml")]),
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "set enabled = false"),
        ("[watch]\nenabled = false\n[state]\ndurable = false", "state.durable"),
        ("[watch]\nenabled = false\n[ledger]\nenabled = false", "the ledger"),
    ],
)
def test_settings_without_a_separate_watch_are_one_line(tmp_path, text, said):
    process = start(tmp_path, text)
    _, err = process.communicate(timeout=3000)
    assert process.returncode == 1
    assert said in err
    assert err.count("\n") == 1


def test_the_watch_waits_for_a_ledger_and_stops_on_sigterm(tmp_path):
    process = start(tmp_path, "[watch]\nenabled = false\n")
    deadline = time.monotonic() + 90
    while not (tmp_path / "state.sqlite").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=300)[1] == ""
    assert process.returncode == 0
