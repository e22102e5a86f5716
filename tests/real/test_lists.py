"""The lists as an administrator uses them: a proxy that runs, the command line, and other servers that read exports."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hedgerow.lists.exporter import write
from hedgerow.lists.model import Listing

from .conftest import missing
from .servers import (
    PATIENCE,
    Nginx,
    Protect,
    Running,
    answers,
    clean_environment,
    find_program,
    free_port,
    stopping,
    wait_for,
)

pytestmark = pytest.mark.real

NOW = 1_800_000_000.0
LISTED = [
    Listing("black", "127.0.0.0/29"),
    Listing("white", "127.0.0.1"),
    Listing("white", "127.0.0.4/31"),
    Listing("black", "127.0.0.5"),
    Listing("black", "2001:db8::/32"),
    Listing("white", "2001:db8::1"),
    Listing("black", "account:ann"),
    Listing("black", "198.51.100.0/24"),
]
REFUSED = {"127.0.0.2": True, "127.0.0.1": False, "127.0.0.4": False, "127.0.0.5": True, "127.0.0.9": False}


def status(url: str, address: str) -> int:
    """The status that a client at *address* gets."""
    import http.client

    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE, source_address=(address, 0))
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def program(name: str) -> str:
    found = find_program(name)
    if found is None:
        missing(name)
    assert found is not None
    return found


@pytest.fixture
def pages(tmp_path):
    root = tmp_path / "pages"
    root.mkdir()
    (root / "index.html").write_text("<!doctype html><p>A page.</p>")
    return root


def lists(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hedgerow", "lists", *arguments],
        cwd=folder,
        env=clean_environment(HEDGEROW__DIRECTORY=str(folder / "state")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_running_proxy_notices_what_the_command_line_does(tmp_path, pages):
    nginx = Nginx(program("nginx"), tmp_path / "nginx", pages)
    with stopping(nginx):
        protect = Protect(nginx.url, tmp_path / "hedgerow")
        with stopping(protect):
            assert status(protect.url, "127.0.0.9") == 200
            lists(protect.folder, "add", "black", "127.0.0.9/32", "--reason", "a test")
            wait_for("the refusal", lambda: status(protect.url, "127.0.0.9") == 403)
            assert status(protect.url, "127.0.0.8") == 200
            lists(protect.folder, "add", "white", "127.0.0.9", "--for", "10s")
            wait_for("the exception", lambda: status(protect.url, "127.0.0.9") == 200)
            wait_for("its end", lambda: status(protect.url, "127.0.0.9") == 403)
            lists(protect.folder, "remove", "black", "127.0.0.9")
            wait_for("to pass again", lambda: status(protect.url, "127.0.0.9") == 200)

            request = urllib.request.Request(
                f"{protect.admin}/lists",
                b'{"list": "black", "subject": "127.0.0.0/28"}',
                {"content-type": "application/json"},
            )
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=PATIENCE) as answer:
                assert answer.status == 201
            assert status(protect.url, "127.0.0.9") == 403
            assert '"127.0.0.0/28"' in protect.ask_admin("/lists")
            assert "deny 127.0.0.0/28;" in protect.ask_admin("/lists/export/nginx-deny")
            with pytest.raises(urllib.error.HTTPError) as error:
                opener.open(urllib.request.Request(f"{protect.admin}/lists", b"{}"), timeout=PATIENCE)
            assert error.value.code == 415
            error.value.close()
        refused = [row for row in protect.visits() if row["action"] == "refuse"]
        assert '"details":"reason: a test' in refused[0]["evidence"]
        explained = subprocess.run(
            [sys.executable, "-m", "hedgerow", "explain", refused[0]["ref"]],
            cwd=protect.folder,
            env=clean_environment(HEDGEROW__DIRECTORY=str(protect.folder / "state")),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "entry       127.0.0.9 (reason: a test" in explained


def export(target: str, path: Path, listed=LISTED) -> Path:
    path.write_text("".join(write(target, listed, at=NOW)))
    return path


@pytest.mark.parametrize("target", ["nginx-deny", "nginx-geo"])
def test_nginx_refuses_whom_we_do(tmp_path, pages, target):
    file = export(target, tmp_path / "hedgerow.conf")
    nginx = program("nginx")
    if target == "nginx-deny":
        server = Nginx(nginx, tmp_path / "nginx", pages, more=f"include {file};")
    else:
        server = Geo(nginx, tmp_path / "nginx", pages, more="if ($hedgerow_list = black) { return 403; }", file=file)
    with stopping(server):
        for address, refused in REFUSED.items():
            assert status(server.url, address) == (403 if refused else 200), address


class Geo(Nginx):
    """nginx with a file that belongs outside of the server."""

    def __init__(self, *args, file: Path, **options) -> None:
        self._file = file
        super().__init__(*args, **options)

    def _config(self) -> str:
        return super()._config().replace("server {", f"include {self._file};\nserver {{", 1)


def serve(command: list[str], port: int, folder: Path) -> Running:
    running = Running(command, folder / "server.log", cwd=folder)
    wait_for("the server", lambda: answers(port) or not running.alive)
    assert running.alive, running.said()
    return running


def test_apache_refuses_whom_we_do(tmp_path, pages):
    apache = program("apache2")
    modules = Path("/usr/lib/apache2/modules")
    file = export("apache", tmp_path / "hedgerow.conf")
    port = free_port()
    names = ["mpm_event", "authz_core", "authz_host", "dir", "mime"]
    loads = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in names)
    user = "User nobody\nGroup nogroup\n" if os.geteuid() == 0 else ""
    tmp_path.chmod(0o755)
    for parent in pages.parents:
        if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    (tmp_path / "apache.conf").write_text(
        f"ServerRoot {tmp_path}\nServerName localhost\nPidFile {tmp_path}/apache.pid\nListen 127.0.0.1:{port}\n"
        f"{loads}\n{user}ErrorLog {tmp_path}/error.log\nTypesConfig /etc/mime.types\nDocumentRoot {pages}\n"
        f"DirectoryIndex index.html\n<Directory {pages}>\nInclude {file}\n</Directory>\n"
    )
    subprocess.run([apache, "-t", "-f", str(tmp_path / "apache.conf")], check=True, capture_output=True)
    running = serve([apache, "-DFOREGROUND", "-f", str(tmp_path / "apache.conf")], port, tmp_path)
    try:
        for address, refused in REFUSED.items():
            assert status(f"http://127.0.0.1:{port}", address) == (403 if refused else 200), address
    finally:
        running.stop()


def test_haproxy_refuses_whom_we_do(tmp_path):
    haproxy = program("haproxy")
    file = export("haproxy", tmp_path / "hedgerow.map")
    port = free_port()
    (tmp_path / "haproxy.cfg").write_text(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n"
        f"frontend f\n  bind 127.0.0.1:{port}\n"
        f"  http-request deny if {{ src,map_ip({file}) -m str black }}\n"
        "  http-request return status 200\n"
    )
    subprocess.run([haproxy, "-c", "-f", str(tmp_path / "haproxy.cfg")], check=True, capture_output=True)
    running = serve([haproxy, "-db", "-f", str(tmp_path / "haproxy.cfg")], port, tmp_path)
    try:
        for address, refused in REFUSED.items():
            assert status(f"http://127.0.0.1:{port}", address) == (403 if refused else 200), address
    finally:
        running.process.kill()
        running.process.wait()


EVERYTHING = [*LISTED, Listing("black", "0.0.0.0/0"), Listing("black", "::/0")]
MANY = [Listing("black", f"10.{n >> 7 & 255}.{n & 127}.0/25") for n in range(3000)]


def apart(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a network of its own, of which nothing is left."""
    unshare = program("unshare")
    if subprocess.run([unshare, "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a network of one's own is not to be had here")
    return subprocess.run([unshare, "-n", *command], input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("listed", [LISTED, EVERYTHING, MANY, []], ids=["some", "everything", "many", "none"])
def test_nftables_takes_the_set(tmp_path, listed):
    nft = program("nft")
    file = export("nftables", tmp_path / "hedgerow.nft", listed)
    if apart([nft, "list", "ruleset"]).returncode:
        pytest.skip("nft may do nothing here")
    # Twice: the second time the set is there already, and is replaced.
    done = apart(["sh", "-e", "-c", f"{nft} -c -f {file}; {nft} -f {file}; {nft} -f {file}; {nft} list ruleset"])
    assert done.returncode == 0, done.stderr
    if listed is LISTED:
        assert "198.51.100.0/24" in done.stdout


@pytest.mark.parametrize("listed", [LISTED, EVERYTHING, MANY, []], ids=["some", "everything", "many", "none"])
def test_ipset_takes_the_set(tmp_path, listed):
    ipset = program("ipset")
    file = export("ipset", tmp_path / "hedgerow.ipset", listed)
    if apart([ipset, "list"]).returncode or apart([ipset, "create", "x", "hash:net"]).returncode:
        pytest.skip("ipset may do nothing here")
    done = apart(["sh", "-e", "-c", f"{ipset} restore < {file}; {ipset} restore < {file}; {ipset} list hedgerow4"])
    assert done.returncode == 0, done.stderr
    if listed is LISTED:
        assert "127.0.0.2/31" in done.stdout
