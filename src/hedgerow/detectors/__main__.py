"""`python -m hedgerow.detectors [DOCS]`: print the reference of all detectors, or update the pages in DOCS."""

from __future__ import annotations

import sys
from pathlib import Path

from hedgerow.detectors.documentation import describe_all, write_pages
from hedgerow.detectors.registry import registry


def main(arguments: list[str]) -> None:
    if arguments:
        write_pages(registry(), Path(arguments[0]))
    else:
        sys.stdout.write(describe_all(registry()))


if __name__ == "__main__":
    main(sys.argv[1:])
