"""The settings reference, and what `hedgerow check` says of good and faulty files."""

from __future__ import annotations

import shutil
from pathlib import Path

from goldens.checkout import Checkout

_FILES = Path(__file__).with_name("settings")
_ENVIRONMENT = (
    ("HEDGEROW__DENSITY__BLOCK_FOR", "600"),
    ("HEDGEROW__DENSITY__BLOCK_FOR", "soon"),
    ("HEDGEROW__DENSTY__BLOCK_FOR", "1"),
    ("HEDGEROW__OBSERVE", "true"),
    ("HEDGEROW__IDENTITY__TRUSTED_PROXIES", '["10.0.0.0/8"]'),
)


def record(checkout: Checkout, folder: Path) -> None:
    """Record the reference as it is, and the checks."""
    reference = checkout.root / "docs" / "settings.md"
    if reference.exists():
        shutil.copy(reference, folder / "settings.md")
    record_checks(checkout, folder)


def record_checks(checkout: Checkout, folder: Path) -> None:
    """Record what `hedgerow check` says of each file, of none, and of settings in the environment."""
    here = checkout.folder("settings")
    files = sorted(path.name for path in _FILES.glob("*.toml"))
    for name in files:
        copy = Path(shutil.copy(_FILES / name, here))
        # `check` warns of secrets in files that others can read: the same whatever the umask of the checkout was.
        copy.chmod(0o644)
    commands: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("check", name), {}) for name in (*files, "missing.toml")
    ]
    commands += [(("check", "defaults.toml"), {name: value}) for name, value in _ENVIRONMENT]
    parts = []
    for (arguments, more), done in zip(commands, checkout.run_all(commands, here), strict=True):
        given = "".join(f"{name}='{value}' " for name, value in more.items())
        parts.append(f"$ {given}hedgerow {' '.join(arguments)}\n{done.text()}")
    (folder / "check.txt").write_text("\n".join(parts), "utf-8")
