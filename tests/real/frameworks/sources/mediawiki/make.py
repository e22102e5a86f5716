"""Installs MediaWiki as Debian has it, with SQLite, and writes some pages: into `seed`."""

import shutil
import subprocess
from pathlib import Path

TREE = Path("/usr/share/mediawiki")
HERE = Path.cwd()
SEED = HERE / "seed"
TREES = ("Hawthorn", "Hazel", "Holly", "Elder", "Spindle", "Dogwood")


def run(script: str, *arguments: str, text: str = "") -> None:
    command = ["php", str(TREE / "maintenance" / script), *arguments]
    subprocess.run(command, input=text, text=True, check=True)


def article(name: str, following: str) -> str:
    first = f"'''{name}''' grows in hedges, like the [[{following}]]. See [[Missing page]] and [[#Uses|its uses]]."
    sections = [f"== {title} ==\nOf the {name}, much is known.\n" for title in ("Looks", "Uses", "History")]
    return "\n".join([first, *sections, "[[Category:Trees]]"])


def main() -> None:
    shutil.rmtree(SEED, ignore_errors=True)
    SEED.mkdir()
    (HERE / "LocalSettings.php").unlink(missing_ok=True)
    run(
        "install.php", "--dbtype", "sqlite", "--dbpath", str(SEED), "--dbname", "wiki", "--server", "http://127.0.0.1",
        "--scriptpath", "", "--confpath", str(HERE), "--pass", "hedges-and-lanes", "Hedges", "Admin",
    )  # fmt: skip
    settings = ["--conf", str(HERE / "LocalSettings.php")]
    for name, following in zip(TREES, (*TREES[1:], TREES[0]), strict=True):
        run("edit.php", *settings, "--user", "Admin", "--summary", "Written down", name, text=article(name, following))
    links = "".join(f"* [[{name}]]\n" for name in TREES)
    run("edit.php", *settings, "--user", "Admin", "Main Page", text=f"All about hedges.\n{links}")
    run("runJobs.php", *settings)


main()
