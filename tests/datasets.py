"""Where the real logs are: beside the checkout, or where `HEDGEROW_DATA` says. Tests that need them skip without."""

import os
from pathlib import Path

DATA = Path(os.environ.get("HEDGEROW_DATA", Path(__file__).parents[2] / "shared" / "data"))
LOGS = DATA / "logs"
