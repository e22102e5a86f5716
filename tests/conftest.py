"""What all tests share. How Hedgerow is driven in process is in `driving.py`."""

from __future__ import annotations

import itertools
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from property_tests import QUICK_EXAMPLES

# Two noisy cores: a deadline for a single example would fail by chance.
hypothesis_settings.register_profile("hedgerow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=QUICK_EXAMPLES
)
hypothesis_settings.load_profile("hedgerow")

_numbers = itertools.count()


def pytest_configure() -> None:
    """SIGTERM is heeded like Ctrl-C: fixtures stop their servers and remove their folders."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Servers of a whole module start before any fixture of a test.
    os.environ["RUNTIME_DIRECTORY"] = tempfile.mkdtemp(prefix="hedgerow-run-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ.pop("RUNTIME_DIRECTORY"), ignore_errors=True)


def _together(nodeid: str) -> str:
    """The name of those tests that one process makes, one after the other: a module has servers, models, a browser."""
    module, _, test = nodeid.partition("::")
    if module.startswith("tests/real/apps/"):
        # The two applications have nothing in common.
        application = re.search(r"\[(forum|wiki)\b", test)
        return application[1] if application else module
    if module.startswith(("tests/report/", "tests/cli/test_report")):
        return "what one has compiled, the others find"
    return module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who is free takes the next. In their own order: the real applications, which take longest, come first."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _together(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch, tmp_path_factory):
    """Neither its settings, nor its key and ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
    for name in [name for name in os.environ if name.startswith("HEDGEROW__")]:
        monkeypatch.delenv(name)
    for name in ("STATE_DIRECTORY", "HEDGEROW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    # What runs for other tests is none of this one's business.
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{os.environ['RUNTIME_DIRECTORY']}/{next(_numbers)}")


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """What a test's clients have started ends with the test."""
    yield
    # Only where it was imported: most tests have no client.
    driving = sys.modules.get("driving")
    while driving is not None and driving.OPEN:
        driving.OPEN.pop().close()


@pytest.fixture(autouse=True)
def _log_as_before():
    """A command that serves logs to the standard error of its test, which is closed for later ones."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        if type(handler.formatter).__module__ == "hedgerow.web.log_format":
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _signals_as_before():
    """A command that ends well ignores SIGTERM from then on; what later tests start would inherit that."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
