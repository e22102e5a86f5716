"""A MariaDB server with its data in one folder, at a socket there."""

import os
import shutil
import subprocess
import time
from pathlib import Path


class Database:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "socket"
        self._process: subprocess.Popen[bytes] | None = None
        # The server does not run as root unless it is told to.
        self._user = ["--user=root"] if os.geteuid() == 0 else []

    def create(self) -> None:
        self.folder.mkdir(parents=True)
        command = [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={self.folder / 'db'}",
            "--auth-root-authentication-method=normal",
        ]
        subprocess.run([*command, *self._user, "--skip-test-db"], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        program = shutil.which("mariadbd", path="/usr/sbin:/usr/bin:" + os.environ.get("PATH", ""))
        assert program, "mariadbd is missing"
        options = [f"--datadir={self.folder / 'db'}", f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}"]
        self._process = subprocess.Popen([program, "--no-defaults", *options, "--skip-networking", *self._user])
        client = [
            "mariadb",
            "--no-defaults",
            f"--socket={self.socket}",
            "-uroot",
            "-e",
            "CREATE DATABASE IF NOT EXISTS site",
        ]
        end = time.monotonic() + 60
        while subprocess.run(client, check=False, stderr=subprocess.DEVNULL).returncode:
            assert self._process.poll() is None, "mariadbd ended"
            assert time.monotonic() < end, "mariadbd does not answer"
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
