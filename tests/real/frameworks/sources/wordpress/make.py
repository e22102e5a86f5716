"""Installs WordPress as Debian has it, with MariaDB and a page cache, and writes some posts: into `seed` and `site`."""

import shutil
import subprocess
from pathlib import Path

from database import Database

HERE = Path.cwd()


def main() -> None:
    for name in ("seed", "site"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    shutil.copytree("/usr/share/wordpress", HERE / "site", ignore=shutil.ignore_patterns("wp-config.php"))
    shutil.copyfile(HERE / "wp-config.php", HERE / "site" / "wp-config.php")
    shutil.copyfile(HERE / "advanced-cache.php", HERE / "site" / "wp-content" / "advanced-cache.php")
    database = Database(HERE / "seed")
    database.create()
    database.start()
    try:
        variables = {"DATABASE": str(database.socket), "DATA": str(HERE / "seed"), "PATH": "/usr/bin:/bin"}
        subprocess.run(["php", str(HERE / "seed.php")], env=variables, check=True)
    finally:
        database.stop()


main()
