"""
The sites, protections and clients of `make arena`, `python -m bench crawlers` and `python -m bench people`.

Everything runs on loopback, as processes that are stopped by their id. The crawlers are those of `tests/real`. No test
imports anything from here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
