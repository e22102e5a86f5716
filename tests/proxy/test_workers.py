"""Worker processes: a stop leaves none behind, whenever it arrives. Restarts: `tests/real/test_workers.py`."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, time
from hedgerow.proxy.workers import Workers

def ask_to_stop():
    os.kill(os.getppid(), signal.SIGTERM)
    serve()

def serve():
    while True:
        time.sleep(1)

Workers([("first", ask_to_stop), *((f"worker {n}", serve) for n in range(200))]).run()
"""


def test_a_stop_while_workers_are_started_reaches_all_of_them():
    # The first worker asks for the end at once, while the other 200 are being started.
    done = subprocess.run([sys.executable, "-c", PROGRAM], timeout=60, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
