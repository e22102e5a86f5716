"""What all tests share. How Hedgerow is driven in process is in `driving.py`."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# Two noisy cores: a deadline for a single example would fail by chance.
hypothesis_settings.register_profile("hedgerow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("hedgerow")


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch, tmp_path_factory):
    """Neither its settings, nor its key and ledger."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
    for name in [name for name in os.environ if name.startswith("HEDGEROW__")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)


@pytest.fixture(autouse=True)
def _nothing_goes_on():
    """What a test's clients have started ends with the test."""
    yield
    # Only where it was imported: most tests have no client.
    driving = sys.modules.get("driving")
    while driving is not None and driving.OPEN:
        driving.OPEN.pop().close()
