"""Unused memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FREES_60_MB = """
from pathlib import Path
from hedgerow.unused_memory import release_unused_memory

def used():
    return int(Path("/proc/self/smaps_rollup").read_text().partition("Pss_Anon:")[2].split()[0]) // 1024

blocks = [bytearray(2000) for _ in range(30_000)]
last = bytearray(2000)
full = used()
blocks.clear()
freed = used()
release_unused_memory()
print(full, freed, used())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has malloc_trim")
def test_free_memory_before_a_block_in_use_is_released():
    said = subprocess.run([sys.executable, "-c", _FREES_60_MB], capture_output=True, text=True, check=True).stdout
    full, freed, released = map(int, said.split())
    assert freed > full - 10, "the test frees nothing that would stay"
    assert released < full - 40
