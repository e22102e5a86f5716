"""Commands that the dashboard starts: one at a time, and what went wrong is remembered."""

from __future__ import annotations

import pytest

from hedgerow.errors import HedgerowError
from hedgerow.web.dashboard.jobs import Jobs, run_command
from real.servers import wait_for


def test_a_command_that_fails_says_why():
    with pytest.raises(HedgerowError, match="no-such-log"):
        run_command(["replay", "no-such-log"], {})


def test_a_job_that_fails_is_remembered_with_its_problem():
    jobs = Jobs()
    jobs.start("work", lambda: 1 / 0)
    wait_for("its end", lambda: jobs.last("work").ended)
    assert jobs.last("work").problem == "division by zero"
    assert jobs.result("work") is None
