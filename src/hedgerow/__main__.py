"""`hedgerow`, and `python -m hedgerow`."""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 130


def main() -> None:
    """Run the command line. Ctrl-C while its parts are still being read ends it as quietly as later."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
        from hedgerow import cli

        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        # Whoever started us does not want it to be minded.
        from hedgerow import cli
    cli.main()


if __name__ == "__main__":
    main()
