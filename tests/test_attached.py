"""What tests start does not outlive them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = """
import subprocess, sys, time
from attached import attached
print(subprocess.Popen(attached(["sleep", "600"])).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_when_the_test_process_that_started_it_is_killed(number):
    tests = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=HERE, stdout=subprocess.PIPE, text=True)
    with tests:
        started = Path("/proc") / tests.stdout.readline().strip()
        try:
            end = time.monotonic() + 30
            while (started / "cmdline").read_bytes() != b"sleep\x00600\x00" and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            tests.send_signal(number)
    # Nobody waits for it any more but the first process of the machine, so it may stay as a zombie for a moment.
    end = time.monotonic() + 30
    while started.exists() and (started / "stat").read_text().split()[2] != "Z" and time.monotonic() < end:
        time.sleep(0.01)
    assert not started.exists() or (started / "stat").read_text().split()[2] == "Z"
