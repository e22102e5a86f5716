"""
Programs that fetch and store files get them byte for byte, and none of them is blocked.

Each is the real program against a real server: curl, wget, cadaver and rclone by WebDAV (Apache), rclone from directory
listings (nginx, Apache) and from S3 (rclone's own server), pip from pypiserver, Digest authentication (Apache).
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from driving import traps_in

from .conftest import missing
from .crawling import BROWSER
from .servers import PATIENCE, Nginx, Protect, Running, answers, clean_environment, free_port, run, wait_for

MODULES = Path("/usr/lib/apache2/modules")
PAGES = 60
Program = Callable[[str], str]


def write_site(root: Path) -> Path:
    """A folder of pages that link each other, in two folders, with some other files."""
    for folder in (root, root / "more"):
        folder.mkdir(parents=True, exist_ok=True)
        for n in range(PAGES // 2):
            links = "".join(f'<a href="{m}.html">Page {m}</a>\n' for m in range(PAGES // 2))
            (folder / f"{n}.html").write_text(f"<!DOCTYPE html>\n<html><head><title>{n}</title></head>{links}</html>\n")
    (root / "data.bin").write_bytes(bytes(range(256)) * 1000)
    (root / "notes.txt").write_text("Notes\n")
    return root


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def curl(program: Program, folder: Path, *options: str) -> str:
    return run([program("curl"), "-sS", "--noproxy", "*", *options], cwd=folder)


def rclone(folder: Path, *command: str) -> str:
    path = Path(sys.executable).parent / "rclone"
    if not path.exists():
        missing("rclone")
    done = subprocess.run(
        [str(path), "--config", "/dev/null", "--retries", "1", *command],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def listing(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    """Directory listings by nginx."""
    return nginx(write_site(tmp_path_factory.mktemp("listing")), more="autoindex on; index none;")


@pytest.fixture(scope="module")
def apache(program: Program) -> Iterator[tuple[str, Path]]:
    """Apache: directory listings, WebDAV below /dav/, and Digest authentication below /secret/. Its URL and folder."""
    server, port = program("apache2"), free_port()
    if not MODULES.exists():
        missing("Apache's modules")
    # Apart from pytest's own folders: every run of pytest closes those to other users, Apache's among them.
    made = tempfile.TemporaryDirectory(prefix="hedgerow-apache-")
    folder = Path(made.name)
    folder.chmod(0o755)
    root = write_site(folder / "root")
    write_site(root / "dav")
    write_site(root / "secret")
    digest = hashlib.md5(b"ann:hedges:secret", usedforsecurity=False).hexdigest()
    (folder / "passwords").write_text(f"ann:hedges:{digest}\n")
    (folder / "locks").mkdir()
    names = (
        "mpm_event authz_core authz_user authn_core authn_file auth_digest alias autoindex dir mime dav dav_fs dav_lock"
    )
    (folder / "apache.conf").write_text(
        "".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in names.split())
        + f"""ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/pid
ErrorLog {folder}/error.log
User www-data
Group www-data
DefaultRuntimeDir {folder}
TypesConfig /etc/mime.types
DocumentRoot {root}
DirectoryIndex disabled
DavLockDB {folder}/locks/db
<Directory />
AllowOverride None
Require all granted
</Directory>
<Directory {root}>
Options Indexes
IndexOptions FancyIndexing HTMLTable
</Directory>
<Directory {root}/dav>
Dav On
</Directory>
<Directory {root}/secret>
AuthType Digest
AuthName hedges
AuthUserFile {folder}/passwords
Require valid-user
</Directory>
"""
    )
    # It reads and writes as another user.
    for path in (folder / "locks", root, *root.rglob("*")):
        path.chmod(0o777)
    running = Running([server, "-DFOREGROUND", "-f", str(folder / "apache.conf")], folder / "out.log", cwd=folder)
    try:
        wait_for("Apache", lambda: answers(port) or not running.alive)
        assert running.alive, running.said() + (folder / "error.log").read_text()
        yield f"http://127.0.0.1:{port}", root
    finally:
        running.stop()
        made.cleanup()


# ---- Single files


@pytest.mark.parametrize("mode", ["clean", "opaque", "readable", "off"])
def test_curl_and_wget_save_a_page_as_it_is(
    mode: str, protect: Callable[..., Protect], listing: Nginx, program: Program, tmp_path: Path
) -> None:
    hedgerow = protect(listing.url, settings=f'[marker]\nmode = "{mode}"\n')
    page = (listing.root / "0.html").read_bytes()
    for _ in range(3):
        curl(program, tmp_path, "-O", "--compressed", f"{hedgerow.url}/0.html")
        assert (tmp_path / "0.html").read_bytes() == page
        run([program("wget"), "-q", "--no-config", "--no-proxy", "-O", "wget.html", f"{hedgerow.url}/0.html"],
            cwd=tmp_path)  # fmt: skip
        assert (tmp_path / "wget.html").read_bytes() == page
    ours, direct = (curl(program, tmp_path, "-I", f"{url}/0.html").lower() for url in (hedgerow.url, listing.url))
    assert re.search(r"content-length: (\d+)", ours)[1] == re.search(r"content-length: (\d+)", direct)[1]
    assert "set-cookie" not in ours
    part = curl(program, tmp_path, "-i", "-r", "5-14", f"{hedgerow.url}/0.html")
    assert part.startswith("HTTP/1.1 206")
    assert part.endswith(page[5:15].decode())
    assert hedgerow.blocked() == {}


def test_several_ranges_of_a_file(protect: Callable[..., Protect], listing: Nginx) -> None:
    headers = {"Range": "bytes=0-9,1000-1009,255000-"}
    both = [
        httpx.get(f"{url}/data.bin", headers=headers, trust_env=False)
        for url in (protect(listing.url).url, listing.url)
    ]
    assert [answer.status_code for answer in both] == [206, 206]
    bodies = [
        answer.content.replace(answer.headers["content-type"].rpartition("=")[2].encode(), b"") for answer in both
    ]
    assert bodies[0] == bodies[1]


def test_digest_authentication(
    protect: Callable[..., Protect], apache: tuple[str, Path], program: Program, tmp_path: Path
) -> None:
    """With curl, and with a browser's headers on a marked link of another page."""
    url, root = apache
    hedgerow = protect(url)
    page = (root / "secret" / "1.html").read_bytes().decode()
    got = curl(program, tmp_path, "--digest", "-u", "ann:secret", f"{hedgerow.url}/secret/1.html")
    assert got == page
    auth = httpx.DigestAuth("ann", "secret")
    with httpx.Client(headers=BROWSER, auth=auth, timeout=PATIENCE, trust_env=False) as client:
        first = client.get(f"{hedgerow.url}/secret/0.html")
        link = re.search(r'href="(1\.html\?~=[^"]+)"', first.text)
        assert (first.status_code, bool(link)) == (200, True)
        followed = client.get(f"{hedgerow.url}/secret/{link[1]}")
        assert (followed.status_code, bool(traps_in(followed.content))) == (200, True)


def test_a_refused_upload_does_not_spoil_the_next_request(protect: Callable[..., Protect], listing: Nginx) -> None:
    """`Expect: 100-continue`: the body is never sent, so the connection ends with the refusal."""
    hedgerow = protect(listing.url, settings="[density]\nwindows = [{ count = 1, seconds = 60, of = 'requests' }]\n")
    request = b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    # nginx may refuse the first one before it is asked for the body.
    for expected in ((b"HTTP/1.1 100", b"HTTP/1.1 405"), b"HTTP/1.1 429"):
        with socket.create_connection(("127.0.0.1", hedgerow.port), PATIENCE) as connection:
            connection.sendall(request)
            told = connection.recv(10_000)
            assert told.startswith(expected), told
            if told.startswith(b"HTTP/1.1 429"):
                assert b"connection: close" in told.lower()
                assert b"retry-after: 60\r\n" in told.lower()
                while connection.recv(10_000):
                    pass
    assert hedgerow.blocked() == {}


# ---- Folders


@pytest.mark.parametrize("server", ["nginx", "apache"])
def test_rclone_copies_a_directory_listing(
    server: str, protect: Callable[..., Protect], listing: Nginx, apache: tuple[str, Path], tmp_path: Path
) -> None:
    url, root = (listing.url, listing.root) if server == "nginx" else (apache[0] + "/dav", apache[1] / "dav")
    hedgerow = protect(url.removesuffix("/dav"))
    where = hedgerow.url + url[len(url.removesuffix("/dav")) :]
    rclone(tmp_path, "copy", "--http-url", where + "/", ":http:", "copy")
    assert content(tmp_path / "copy") == content(root)
    assert hedgerow.blocked() == {}


def test_rclone_copies_by_webdav_there_and_back(
    protect: Callable[..., Protect], apache: tuple[str, Path], tmp_path: Path
) -> None:
    url, root = apache
    hedgerow = protect(url)
    dav = ["--webdav-url", f"{hedgerow.url}/dav/", "--webdav-vendor", "other"]
    rclone(tmp_path, "copy", *dav, ":webdav:", "copy")
    before = content(root / "dav")
    assert content(tmp_path / "copy") == before
    rclone(tmp_path, "copy", *dav, "copy", ":webdav:again")
    assert content(root / "dav" / "again") == before
    rclone(tmp_path, "purge", *dav, ":webdav:again")
    assert content(root / "dav") == before
    assert hedgerow.blocked() == {}


def test_cadaver_gets_and_puts_pages(
    protect: Callable[..., Protect], apache: tuple[str, Path], program: Program, tmp_path: Path
) -> None:
    url, root = apache
    hedgerow = protect(url)
    commands = "".join(f"get {n}.html\nput {n}.html\n" for n in range(5))
    done = subprocess.run(
        [program("cadaver"), f"{hedgerow.url}/dav/more/"],
        input=commands, cwd=tmp_path, env=clean_environment(HOME=str(tmp_path)), capture_output=True, text=True,
        timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stdout.count("succeeded") >= 10, done.stdout
    for n in range(5):
        page = (root / "more" / f"{n}.html").read_bytes()
        assert (tmp_path / f"{n}.html").read_bytes() == (root / "dav" / "more" / f"{n}.html").read_bytes() == page
    assert hedgerow.blocked() == {}


def test_rclone_copies_from_s3(protect: Callable[..., Protect], tmp_path: Path) -> None:
    path, port = Path(sys.executable).parent / "rclone", free_port()
    if not path.exists():
        missing("rclone")
    bucket = write_site(tmp_path / "buckets" / "site")
    server = Running(
        [str(path), "serve", "s3", "--auth-key", "key,secret", "--addr", f"127.0.0.1:{port}", str(bucket.parent)],
        tmp_path / "s3.log", cwd=tmp_path,
    )  # fmt: skip
    try:
        wait_for("S3", lambda: answers(port) or not server.alive)
        hedgerow = protect(f"http://127.0.0.1:{port}")
        s3 = ["--s3-provider", "Rclone", "--s3-endpoint", hedgerow.url, "--s3-access-key-id", "key",
              "--s3-secret-access-key", "secret"]  # fmt: skip
        rclone(tmp_path, "copy", *s3, ":s3:site", "copy")
        assert content(tmp_path / "copy") == content(bucket)
        assert hedgerow.blocked() == {}
    finally:
        server.stop()


# ---- Package managers


def write_wheel(folder: Path, name: str, needs: str = "") -> None:
    """A package without code. It may need another."""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + (f"Requires-Dist: {needs}\n" if needs else "")
    wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in (("METADATA", about), ("WHEEL", wheel), ("RECORD", "")):
            archive.writestr(f"{name}-1.0.dist-info/{path}", text)
    (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(data.getvalue())


@pytest.mark.parametrize("mode", ["clean", "opaque", "readable", "off"])
def test_pip_installs_from_pypiserver(mode: str, protect: Callable[..., Protect], tmp_path: Path) -> None:
    # Not imported: it leaves an importer behind that makes later imports warn.
    if importlib.util.find_spec("pypiserver") is None:
        missing("pypiserver")
    packages, port = tmp_path / "packages", free_port()
    packages.mkdir()
    for n in range(12):
        write_wheel(packages, f"hedge{n}", f"hedge{n + 1}" if n < 11 else "")
    server = Running(
        [sys.executable, "-m", "pypiserver", "run", "-p", str(port), "-i", "127.0.0.1", "--disable-fallback",
         str(packages)],
        tmp_path / "pypiserver.log", cwd=tmp_path,
    )  # fmt: skip
    try:
        wait_for("pypiserver", lambda: answers(port) or not server.alive)
        hedgerow = protect(f"http://127.0.0.1:{port}", settings=f'[marker]\nmode = "{mode}"\n')
        pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-cache-dir", "download"]
        environment = clean_environment(PIP_CONFIG_FILE=os.devnull)
        done = subprocess.run(
            [*pip, "--index-url", f"{hedgerow.url}/simple/", "--dest", "got", "hedge0"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert content(tmp_path / "got") == content(packages)
        assert hedgerow.blocked() == {}
    finally:
        server.stop()
