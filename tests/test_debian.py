"""The parts of the Debian package fit each other. `make deb test-deb` builds and installs it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
from pathlib import Path

from hedgerow.settings import load_settings

HERE = Path(__file__).parents[1]
DEBIAN = HERE / "deploy" / "debian"


def test_the_settings_of_the_package_are_valid_and_observe_only() -> None:
    settings = load_settings(DEBIAN / "hedgerow.toml", environment={})
    assert settings.observe is True
    assert settings.directory == "/var/lib/hedgerow"
    assert settings.admin.listen.startswith("127.0.0.1:")


def test_the_unit_of_the_package_runs_as_its_user_with_its_settings() -> None:
    loader = importlib.machinery.SourceFileLoader("build_deb", str(HERE / "tools" / "build-deb"))
    spec = importlib.util.spec_from_loader("build_deb", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    unit = module.unit((HERE / "deploy" / "systemd" / "hedgerow.service").read_text())
    assert "ExecStart=/opt/hedgerow/bin/hedgerow protect --config /etc/hedgerow/hedgerow.toml\n" in unit
    assert "User=hedgerow\nGroup=hedgerow\n" in unit
    assert "DynamicUser" not in unit
    assert "StateDirectory=hedgerow\n" in unit
    assert unit.startswith("[Unit]")


def test_its_scripts_are_valid_shell() -> None:
    for path in (
        DEBIAN / "command",
        DEBIAN / "hedgerow.postinst",
        DEBIAN / "hedgerow.postrm",
        HERE / "tools" / "test-deb",
    ):
        assert subprocess.run(["sh", "-n", path], check=False).returncode == 0, path
