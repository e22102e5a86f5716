"""Each test that docs/promises.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PROMISES = HERE.parents[1] / "docs" / "promises.md"


def test_every_test_that_holds_a_promise_exists():
    """A promise whose test was renamed or removed would be held by nothing."""
    file, missing = "", []
    for line in PROMISES.read_text("utf-8").splitlines():
        if line.startswith("## "):
            file = re.search(r"`([\w/]+\.py)`", line)[1]
        folder = PROMISES.parents[1] if "/" in file else HERE
        defined = (folder / file).read_text("utf-8") if file else ""
        missing += [f"{file}: {name}" for name in re.findall(r"`(test_\w+)`", line) if f"def {name}(" not in defined]
    assert not missing
