"""
Run several `hedgerow` commands in one process: started by `Checkout.run_all` under the Python to record.

Standard input is a JSON list of commands, each with its arguments and additions to the environment; standard output is
a JSON list of their exit status, standard output and standard error. To start Python once a command takes ten times as
long.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence


def run(arguments: Sequence[str], more: Mapping[str, str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `hedgerow *arguments*`."""
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    sys.argv = ["hedgerow", *arguments]
    os.environ.update(more)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("hedgerow", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code
    for name in more:
        del os.environ[name]
    return status if isinstance(status, int) else int(status is not None), out.getvalue(), err.getvalue()


json.dump([run(*command) for command in json.load(sys.stdin)], sys.stdout)
