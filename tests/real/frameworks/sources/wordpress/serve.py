"""Serves a copy of the site at a port, with its database; both end with this program."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from database import Database

HERE, DATA = Path.cwd(), Path(os.environ["DATA"])


def main() -> int:
    shutil.copytree(HERE / "seed" / "db", DATA / "db")
    database = Database(DATA)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    php: subprocess.Popen[bytes] | None = None
    try:
        database.start()
        variables = {**os.environ, "DATABASE": str(database.socket), "PHP_CLI_SERVER_WORKERS": "4"}
        command = ["php", "-d", "opcache.enable_cli=1", "-S", f"127.0.0.1:{sys.argv[1]}", "-t", str(HERE / "site")]
        php = subprocess.Popen([*command, str(HERE / "router.php")], env=variables, start_new_session=True)
        return php.wait()
    finally:
        if php is not None:
            # It has workers, which do not end with it.
            os.killpg(php.pid, signal.SIGKILL)
        database.stop()


sys.exit(main())
