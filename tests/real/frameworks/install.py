"""Installs and builds the applications, once, in `build/apps`. The second run takes what is there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from real.servers import clean_environment

from .table import App

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CACHE = Path(os.environ.get("HEDGEROW_APPS", ROOT / "build" / "apps"))
NODE = "24.21.0"
"""The Node that the applications need which do not run on Debian's."""
_LONGEST = 1500
_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


class NotInstallableError(Exception):
    """An application cannot be installed or built here."""


def install(app: App) -> Path:
    """Return the folder of *app* with its packages installed and its sources built."""
    absent = [path for path in app.debian if not Path(path).exists()]
    if absent:
        raise NotInstallableError(f"{', '.join(absent)} missing: see `tools/packages apps`")
    folder = CACHE / app.name
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{app.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        node = _node() if app.newer_node else None
        _once(folder, ".packages", repr((app.npm, app.python)), lambda: _install_packages(app, folder))
        _once(folder, ".sources", _digest_of_sources(app), lambda: _build(app, folder, node))
    return folder


def environment(app: App, folder: Path) -> dict[str, str]:
    """Return the variables with which the application's programs run."""
    bins = [folder / "node_modules" / ".bin", folder / ".venv" / "bin"]
    if app.newer_node:
        bins.insert(0, CACHE / "node" / "bin")
    path = os.pathsep.join([*map(str, bins), os.environ.get("PATH", "")])
    home = folder / ".home"
    home.mkdir(exist_ok=True)
    quiet = {
        "NEXT_TELEMETRY_DISABLED": "1", "NUXT_TELEMETRY_DISABLED": "1", "ASTRO_TELEMETRY_DISABLED": "1",
        "GATSBY_TELEMETRY_DISABLED": "1", "NG_CLI_ANALYTICS": "false", "CI": "true", "NODE_ENV": "production",
    }  # fmt: skip
    return {"PATH": path, "HOME": str(home), **quiet}


def _once(folder: Path, stamp: str, content: str, make: object) -> None:
    """Call *make* unless the folder has been made from this *content*."""
    path = folder / stamp
    if path.exists() and path.read_text() == content:
        return
    path.unlink(missing_ok=True)
    assert callable(make)
    make()
    path.write_text(content)


def _install_packages(app: App, folder: Path) -> None:
    (folder / ".sources").unlink(missing_ok=True)
    if app.npm:
        if shutil.which("npm") is None:
            raise NotInstallableError("npm is missing")
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
        # No scripts of packages are run, and nothing records from where they came.
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
        _run(["npm", "install", *options, *app.npm], folder)
    if app.python:
        _run([sys.executable, "-m", "venv", str(folder / ".venv")], folder)
        pip = [str(folder / ".venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
        _run([*pip, *app.python], folder)


def _build(app: App, folder: Path, node: Path | None) -> None:
    source = HERE / "sources" / app.name
    shutil.copytree(source, folder, dirs_exist_ok=True)
    for target, origin in app.copies.items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / origin, folder / target)
    for command in app.build:
        _run(command.split(), folder, environment(app, folder))
    assert node is None or node.exists()


def _node() -> Path:
    folder = CACHE / "node"
    kind = _ARCHITECTURES.get(platform.machine())
    if kind is None:
        raise NotInstallableError(f"Node {NODE} for {platform.machine()} is missing")
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = f"node-linux-{kind}"
        _once(
            folder, ".packages", f"{package}@{NODE}",
            lambda: _run(
                ["npm", "install", "--no-package-lock", "--no-save", "--ignore-scripts", f"{package}@{NODE}"], folder
            ),
        )  # fmt: skip
        links = folder / "bin"
        links.mkdir(exist_ok=True)
        program = links / "node"
        if not program.exists():
            program.symlink_to(folder / "node_modules" / package / "bin" / "node")
    return program


def _digest_of_sources(app: App) -> str:
    found = hashlib.sha256(repr((app.build, sorted(app.copies.items()), app.newer_node and NODE)).encode())
    source = HERE / "sources" / app.name
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        found.update(str(path.relative_to(source)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _run(command: Sequence[str], folder: Path, more: dict[str, str] | None = None) -> None:
    with (folder / "install.log").open("ab") as log:
        # The proxies of the environment are needed here: packages come from outside.
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        try:
            done = subprocess.run(
                ["nice", "-n", "10", *command], cwd=folder, env={**clean_environment(**(more or {})), **proxies},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=_LONGEST, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstallableError(f"{' '.join(command[:3])}: {error}") from None
    if done.returncode:
        said = (folder / "install.log").read_text("utf-8", "replace").strip().splitlines()
        raise NotInstallableError(
            f"{' '.join(command[:3])} failed: {' | '.join(said[-4:])[:500]}; see {folder}/install.log"
        )
