"""What a deployment installs: pinned with hashes, under known licences, unprivileged, from a reproducible wheel."""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DEPLOYED = ROOT / "deploy" / "requirements.txt"
LICENCES = ROOT / "deploy" / "licences.txt"
FREE = {
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "LGPL-3.0-only", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0",
    "OLDAP-2.8", "PSF-2.0",
}  # fmt: skip
"""Licences under which a package may be installed beside Hedgerow, whose own is Apache-2.0."""


def versions(path: Path) -> dict[str, str]:
    return {
        canonicalize_name(m[1]): m[2] for m in re.finditer(r"^([\w.-]+)==([^\s\\]+)", path.read_text(), re.MULTILINE)
    }


def test_every_package_of_a_deployment_is_pinned_with_hashes_and_without_an_index():
    text = DEPLOYED.read_text()
    for entry in re.split(r"(?<!\\)\n", text):
        if entry and not entry.startswith("#"):
            assert re.fullmatch(
                r"[\w.-]+==[\w.]+( ; python_full_version < \"[\d.]+\")?( \\\n    --hash=sha256:[0-9a-f]{64})+", entry
            ), entry
    assert "://" not in text


def test_a_deployment_has_the_versions_that_are_tested():
    tested = versions(ROOT / "requirements.txt")
    assert {name: tested.get(name) for name in versions(DEPLOYED)} == versions(DEPLOYED), (
        "run tools/hashed-requirements"
    )


def test_everything_that_hedgerow_needs_is_pinned():
    for text in requires("hedgerow") or ():
        one = Requirement(text)
        extras = ("", "acme", "otel", "postgresql", "redis")
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
            assert canonicalize_name(one.name) in versions(DEPLOYED), f"{one.name}: run tools/hashed-requirements"


@pytest.mark.parametrize("release", ["3.11.0", "3.11.2", "3.12.9", "3.13.9"])
def test_what_a_release_of_python_needs_is_pinned_for_it(release):
    """Debian 12 has 3.11.2, for which redis needs `async-timeout`: with hashes, pip refuses what is not pinned."""
    environment = {"extra": "", "python_version": release.rpartition(".")[0], "python_full_version": release}
    pinned = {
        canonicalize_name(m[1])
        for m in re.finditer(r"^([\w.-]+)==\S+(?: ; (.+?))? \\$", DEPLOYED.read_text(), re.MULTILINE)
        if m[2] is None or Marker(m[2]).evaluate(environment)
    }
    for name in pinned - {"async-timeout"}:
        for text in requires(name) or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate(environment):
                assert canonicalize_name(one.name) in pinned, f"{name} needs {one.name}: run tools/hashed-requirements"


def test_the_licence_of_every_package_is_known_and_free():
    listed = dict(line.split(": ", 1) for line in LICENCES.read_text().splitlines() if not line.startswith("#"))
    assert set(listed) == set(versions(DEPLOYED))
    for name, licence in listed.items():
        assert set(re.split(r" (?:AND|OR) ", licence)) <= FREE, f"{name}: {licence}"
        with contextlib.suppress(PackageNotFoundError):
            # Of what other releases of Python need nothing is installed here.
            declared = metadata(name).get("License-Expression")
            assert declared in {None, licence}, f"{name} says {declared}"


@pytest.mark.slow
def test_the_wheel_has_the_same_bytes_whenever_it_is_built(tmp_path):
    digests = set()
    for name in ("one", "two"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / name],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        (wheel,) = (tmp_path / name).glob("*.whl")
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_the_unit_has_no_privileges():
    unit = (ROOT / "deploy" / "systemd" / "hedgerow.service").read_text().splitlines()
    assert {
        "DynamicUser=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict", "PrivateTmp=yes",
        "MemoryDenyWriteExecute=yes", "RestrictNamespaces=yes", "SystemCallFilter=@system-service", "UMask=0077",
    } <= set(unit)  # fmt: skip


def test_the_container_has_no_privileges_and_installs_by_hash():
    lines = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    assert re.findall(r"^USER (\S+)", lines, re.MULTILINE) == ["10001"]
    assert "--require-hashes -r deploy/requirements.txt" in lines
    compose = (ROOT / "deploy" / "docker" / "compose.yaml").read_text()
    assert "read_only: true" in compose
    assert re.search(r"cap_drop:\s*(?:\[ALL\]|- ALL)", compose)
    assert "no-new-privileges" in compose
