"""`hedgerow`, and `python -m hedgerow`."""

from __future__ import annotations

from hedgerow.cli.start import main

if __name__ == "__main__":
    main()
