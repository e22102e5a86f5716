"""`hedgerow init`: with options, with a terminal, and what it refuses to overwrite."""

from __future__ import annotations

import http.server
import os
import pty
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hedgerow.cli.init import _FRONTS, check_front, check_listen
from hedgerow.cli.main import main
from hedgerow.settings import load_settings
from hedgerow.web.admin.passwords import is_password
from real.servers import HEDGEROW, clean_environment, free_port


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", "init", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return run


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None: ...


@pytest.fixture
def site():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_options_answer_all_questions(run, site):
    status, out, err = run(
        "--upstream", site, "--front", "nginx", "--listen", "127.0.0.1:9080", "--contact", 'ann "x" <a@example.org>',
        "--enforce",
    )  # fmt: skip
    assert status == 0
    assert err.startswith(f"{site} answers with status 200\n")
    assert re.fullmatch(
        r"(warning: nginx is not installed .*|nginx is installed \([\d.]+\)[,;] .*)\n", err.partition("\n")[2]
    )
    found = load_settings(Path("hedgerow.toml"), environment={})
    assert (found.proxy.upstream, found.proxy.listen) == (site, "127.0.0.1:9080")
    assert found.responses.contact == 'ann "x" <a@example.org>'
    assert found.observe is False
    assert "127.0.0.1/32" in found.identity.trusted_proxies
    assert f"server {site.removeprefix('http://')};" in out
    assert "server 127.0.0.1:9080;" in out
    assert "127.0.0.1:8000" not in out
    assert out.endswith("Start it with: hedgerow protect --config hedgerow.toml\n")
    assert Path("hedgerow.toml").read_text().count("#") > 5


@pytest.mark.parametrize("front", ["none", "nginx", "apache", "haproxy", "caddy"])
def test_each_front_server_gets_its_configuration_and_command(run, front):
    upstream = f"http://127.0.0.1:{free_port()}"
    status, out, err = run("--upstream", upstream, "--front", front)
    assert status == 0
    assert err.startswith(f"warning: {upstream} does not answer")
    found = load_settings(Path("hedgerow.toml"), environment={})
    assert found.observe is True
    command = "serve" if front == "caddy" else "protect"
    assert f"hedgerow {command} --config hedgerow.toml" in out
    assert (upstream.removeprefix("http://") in out) is (front != "none")
    assert bool(found.identity.trusted_proxies) is (front != "none")


def test_the_front_server_is_looked_at(tmp_path, monkeypatch):
    program = tmp_path / "httpd"
    program.write_text("#!/bin/sh\necho 'Server version: Apache/2.4.57 (Debian)' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("hedgerow.cli.init._ALSO", "")
    nobody, somebody = free_port(), socket.create_server(("127.0.0.1", 0))
    with somebody:
        port = somebody.getsockname()[1]
        apache, caddy = _FRONTS["apache"], _FRONTS["caddy"]
        assert (
            check_front("apache", apache, [port, nobody]) == f"apache is installed (2.4.57); port {port} is in use here"
        )
        assert check_front("apache", apache, [nobody]).endswith(f"does not run: nothing listens on port {nobody}")
        assert "caddy is not installed on this machine" in check_front("caddy", caddy)
        assert check_listen(f"127.0.0.1:{port}") == (
            f"warning: Hedgerow cannot listen on 127.0.0.1:{port} now: Address already in use"
        )
    assert check_listen(f"127.0.0.1:{nobody}") == check_listen(f":{nobody}") == ""
    program.write_text("#!/nowhere\n")
    assert "apache is not installed" in check_front("apache", apache)


def test_a_file_is_never_overwritten(run, site):
    Path("hedgerow.toml").write_text("# mine\n")
    status, out, err = run("--upstream", site)
    assert (status, out) == (1, "")
    assert "exists already and is not overwritten" in err
    assert Path("hedgerow.toml").read_text() == "# mine\n"
    assert run("--upstream", site, "--front", "none", "-o", "other.toml")[0] == 0


@pytest.mark.parametrize(
    "arguments", [(), ("--upstream", "nonsense"), ("--upstream", "http://a", "--listen", "x"), ("--front", "iis")]
)
def test_wrong_use_writes_nothing(run, tmp_path, arguments):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert not any(tmp_path.iterdir())


def asked(folder: Path, answers: str, password: str, *options: str) -> tuple[int, str]:
    """
    Answer the questions of a terminal, and then those for a password, first with a mistake; return the status and what
    was said.
    """
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [str(HEDGEROW), "init", *options], stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
        env=clean_environment(), text=True, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    os.write(leader, answers.encode())
    said = ""
    # What was typed before the question is thrown away.
    prompts = ("(empty: none): ", password, "again: ", password + "x", "(empty: none): ", password, "again: ", password)
    for prompt, answer in zip(prompts[::2], prompts[1::2], strict=True):
        while not said.endswith(prompt) and (more := process.stdout.read(1)):
            said += more
        os.write(leader, f"{answer}\n".encode())
        said += " "
        if not answer:
            break
    rest, _ = process.communicate(timeout=120)
    os.close(leader)
    return process.returncode, said + rest


@pytest.mark.parametrize(("password", "users"), [("", 0), ("correct horse battery", 1)])
def test_a_terminal_is_asked_five_questions_and_for_a_password(site, tmp_path, password, users):
    status, said = asked(tmp_path, f"{site}\nnone\n:9090\nann@example.org\nn\n", password)
    assert status == 0, said
    found = load_settings(tmp_path / "hedgerow.toml", environment={})
    assert (found.proxy.upstream, found.proxy.listen, found.responses.contact, found.observe) == (
        site, ":9090", "ann@example.org", False,
    )  # fmt: skip
    assert f"{site} answers with status 200" in said
    assert len(found.admin.users) == users
    assert ("as admin" in said) is bool(users)
    assert ("These are two different passwords." in said) is bool(users)
    if users:
        assert is_password(password, found.admin.users[0].password)
        assert password not in said + (tmp_path / "hedgerow.toml").read_text()
        assert (tmp_path / "hedgerow.toml").stat().st_mode & 0o7 == 0


def test_a_short_password_writes_nothing(site, tmp_path):
    options = ["--upstream", site, "--front", "none", "--listen", ":9090", "--contact", "", "--observe"]
    status, said = asked(tmp_path, "", "short", *options)
    assert status == 1
    assert "at least 10 characters" in said
    assert not any(tmp_path.iterdir())
