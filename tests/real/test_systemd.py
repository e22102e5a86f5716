"""The unit of deploy/systemd: what systemd says about it, and a service under its filter of system calls."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from functools import cache
from pathlib import Path

import pytest

from .conftest import missing
from .servers import HEDGEROW, Running, answers, free_port, stopping, wait_for

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "hedgerow.service"
# systemd itself builds its filters with this library.
LIBRARY = "libseccomp.so.2"
LAUNCHER = f"""
import ctypes, os, sys
lib = ctypes.CDLL("{LIBRARY}")
lib.seccomp_init.restype = ctypes.c_void_p
lib.seccomp_init.argtypes = [ctypes.c_uint32]
lib.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
lib.seccomp_load.argtypes = [ctypes.c_void_p]
refused, allowed, names, *command = sys.argv[1:]
context = lib.seccomp_init(int(refused))
for name in names.split():
    number = lib.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        lib.seccomp_rule_add(context, int(allowed), number, 0)
assert lib.seccomp_load(context) == 0
os.execvp(command[0], command)
"""
ALLOW, KILL, EPERM = 0x7FFF0000, 0x80000000, 0x00050001


@cache
def calls(name: str) -> frozenset[str]:
    """The system calls of a group such as @privileged."""
    if not name.startswith("@"):
        return frozenset({name})
    command = ["systemd-analyze", "--no-pager", "syscall-filter", name]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    inside = [line.strip() for line in said.splitlines()[1:] if line.strip() and "#" not in line]
    return frozenset().union(*map(calls, inside))


def filtered(unit: str) -> list[str]:
    """The beginning of a command that runs another one as the unit says."""
    found = set(calls("@default"))
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
        names = frozenset().union(*map(calls, line.lstrip("~").split()))
        found = found - names if line.startswith("~") else found | names
    refused = EPERM if "SystemCallErrorNumber=EPERM" in unit else KILL
    return [sys.executable, "-c", LAUNCHER, str(refused), str(ALLOW), " ".join(sorted(found))]


@pytest.fixture(scope="module")
def unit(program) -> str:
    program("systemd-analyze")
    if subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{LIBRARY}')"], check=False).returncode:
        missing(LIBRARY)
    return UNIT.read_text()


def test_systemd_finds_no_fault_in_the_unit_and_calls_it_safe(unit, tmp_path):
    path = tmp_path / "hedgerow.service"
    path.write_text(unit.replace("/opt/hedgerow/bin/hedgerow", str(HEDGEROW)))
    said = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert said.stderr == ""
    assert said.returncode == 0
    rating = ["systemd-analyze", "--no-pager", "security", "--offline=true", "--threshold=20", path]
    assert subprocess.run(rating, capture_output=True, check=False).returncode == 0, "an exposure above 2.0 of 10"


def test_a_call_that_the_unit_does_not_allow_fails_and_ends_nothing(unit):
    code = "import os\ntry: os.chown('/', 0, 0)\nexcept PermissionError: print('refused')"
    said = subprocess.run([*filtered(unit), sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "refused\n")


def test_a_service_under_the_filter_serves_and_makes_a_report(unit, site, tmp_path):
    port, admin = free_port(), free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    command = [*filtered(unit), str(HEDGEROW), "protect", site.url, *options]
    running = Running(
        command, tmp_path / "service.log", cwd=tmp_path, environment={"STATE_DIRECTORY": str(tmp_path / "state")}
    )
    with stopping(running):
        wait_for("the service", lambda: answers(port) or not running.alive)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as page:
            assert page.status == 200
        wait_for("the ledger", lambda: sum(ask(admin, "now")["totals"].values()))
        ask(admin, "reports/make", b"{}")
        wait_for("the report", lambda: ask(admin, "reports")["last"]["ended"])
        found = ask(admin, "reports")
        assert found["last"]["problem"] == ""
        assert found["rows"][0]["requests"] == 1
        assert running.alive


def ask(port: int, path: str, body: bytes | None = None):
    """Ask the API, or change something by it."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/{path}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)
