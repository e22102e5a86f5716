"""`hedgerow protect --tls`: https for visitors, with a renewed certificate, workers, and a redirect from http."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from certificates import write_pair

from .servers import HEDGEROW, Nginx, Protect, clean_environment, free_port, wait_for

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@pytest.fixture
def curl(program: Callable[[str], str]) -> Callable[..., str]:
    def ask(url: str, certificate: Path, *more: str) -> str:
        command = [program("curl"), "-sS", "--max-time", "20", "--cacert", str(certificate), "-A", BROWSER, *more, url]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False, timeout=30)
        return done.stdout + done.stderr

    return ask


@pytest.fixture(scope="module")
def mirror(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    """A site with a page, and an address that says with which scheme it was asked."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text('<!doctype html><title>A</title><p><a href="/b.html">B</a></p>')
    return nginx(folder, more='location /scheme { default_type text/plain; return 200 "$http_x_forwarded_proto\\n"; }')


@pytest.mark.parametrize("workers", [1, 2])
def test_visitors_get_https_and_its_cookies(
    workers: int, protect: Callable[..., Protect], mirror: Nginx, tmp_path: Path, curl: Callable[..., str]
) -> None:
    certificate, key = write_pair(tmp_path)
    plain = free_port()
    settings = f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\nredirect = "127.0.0.1:{plain}"\n'
    server = protect(mirror.url, options=["--workers", str(workers)], settings=settings)
    assert server.url.startswith("https://")
    page = curl(server.url + "/", certificate, "-i", "-H", "Accept: text/html")
    assert "HTTP/1.1 200" in page
    cookies = re.findall(r"(?i)^set-cookie: (.*)", page, re.MULTILINE)
    assert cookies
    assert all(cookie.startswith("__Host-") and "; Secure" in cookie for cookie in cookies), page
    assert curl(server.url + "/scheme", certificate) == "https\n"
    redirected = curl(f"http://127.0.0.1:{plain}/a?b=1", certificate, "-i")
    assert "HTTP/1.1 301" in redirected
    assert f"location: {server.url}/a?b=1" in redirected
    # Renewed, as certbot does it: every worker notices.
    write_pair(tmp_path, "renewed.example")
    wait_for("the new certificate", lambda: curl(server.url + "/scheme", certificate) == "https\n")
    wait_for("every worker", lambda: server.said().count("new certificate for renewed.example") == workers)
    for _ in range(8):
        assert curl(server.url + "/scheme", certificate) == "https\n"


def test_a_pair_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    certificate, _ = write_pair(tmp_path)
    _, other = write_pair(tmp_path, stem="other")
    done = subprocess.run(
        [HEDGEROW, "protect", "http://127.0.0.1:9", "--tls", certificate, other], cwd=tmp_path, capture_output=True,
        text=True, env=clean_environment(STATE_DIRECTORY=str(tmp_path / "state")), timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"{other} is not the key of the first certificate in {certificate}")


@pytest.mark.parametrize(
    ("days", "expected"), [(90, ""), (5, "tls.certificate: expires in 5 days"), (-3, "tls.certificate: expired 3 days")]
)
def test_check_verifies_the_pair(tmp_path: Path, days: float, expected: str) -> None:
    certificate, key = write_pair(tmp_path, days=days)
    file = tmp_path / "hedgerow.toml"

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HEDGEROW, "check", file], capture_output=True, text=True, env=clean_environment(), timeout=60, check=False
        )

    file.write_text(f"[tls]\ncertificate = {json.dumps(str(certificate))}\nkey = {json.dumps(str(key))}\n")
    done = check()
    assert done.returncode == 0
    assert expected in done.stderr if expected else not done.stderr
    key.chmod(0o644)
    assert "tls.key: every user of this machine can read it" in check().stderr
    key.unlink()
    done = check()
    assert done.returncode == 2
    assert f"tls: {key} cannot be read" in done.stderr
