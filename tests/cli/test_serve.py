"""`hedgerow serve` and `hedgerow client`: wrong use is one line and exit status 2; they start, answer and stop well."""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
import urllib.error
import urllib.request

import pytest

from hedgerow.cli.main import main
from hedgerow.services.spoe import frame, number, text
from real.servers import HEDGEROW, Running, answers, free_port, wait_for


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().err

    return run


def test_a_service_without_trusted_servers_does_not_start(run):
    status, said = run("serve")
    assert status == 2
    assert "trusted_proxies" in said


@pytest.mark.parametrize("option", ["--listen", "--admin"])
def test_an_invalid_listener_is_refused(run, option):
    status, said = run("serve", option, "nowhere")
    assert (status, said.startswith(f"{option}: ")) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "wanted", "words"),
    [
        (["https://x:1"], 2, "token-file"),
        (["https://x:1", "--token-file", "none"], 1, "cannot read the token"),
        (["https://x:1", "--token-file", "empty"], 1, "contains no token"),
        (["x", "--token-file", "token"], 1, "is not the address of a server"),
        (["https://x:1", "--token-file", "token", "--trust", "10.0.0.1/8"], 2, "--trust"),
        (["https://x:1", "--token-file", "token", "--listen", "x"], 2, "--listen"),
        (["http://127.0.0.1:9", "--token-file", "token", "--listen", "127.0.0.1:0", "--map", "no/such/file"], 1,
         "cannot write no/such/file"),
    ],
)  # fmt: skip
def test_wrong_use_of_the_client_is_one_line(run, tmp_path, arguments, wanted, words):
    (tmp_path / "token").write_text("token-of-the-shop\n")
    (tmp_path / "empty").write_text("\n")
    status, said = run("client", *arguments)
    assert status == wanted
    assert words in said
    assert said.count("\n") == 1


def ask_later(port: int) -> tuple[int, int, int]:
    """What a front is told; what it gets when it comes for the answer, and again; 0 where it need not come."""

    def ask(path: str, **headers: str) -> tuple[int, str]:
        told = {"x-forwarded-uri": "/", "x-forwarded-method": "GET", "x-forwarded-for": "192.0.2.9", **headers}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=told)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers.get("hedgerow-ref", "")
        except urllib.error.HTTPError as error:
            error.close()
            return error.code, error.headers.get("hedgerow-ref", "")

    status, reference = ask("/auth/later")
    if not reference:
        return status, 0, 0
    return (
        status,
        ask("/answer", **{"x-hedgerow-ref": reference})[0],
        ask("/answer", **{"x-hedgerow-ref": reference})[0],
    )


def test_client_and_server_connect_and_stop_cleanly(tmp_path):
    """A client and a service of two workers: they answer, end with 0 and have nothing to complain of."""
    port, side = free_port(), free_port()
    (tmp_path / "token").write_text("token-of-the-shop")
    (tmp_path / "hedgerow.toml").write_text(
        "[density]\nwindows = [{ count = 3, seconds = 600.0 }]\n"
        "[identity]\ntrusted_proxies = ['127.0.0.1/32']\n[serve]\nspoe = '127.0.0.1:0'\n"
        "[[serve.clients]]\nname = 'shop'\ntoken = 'token-of-the-shop'\n"
    )
    environment = {"HEDGEROW__DIRECTORY": str(tmp_path / "state")}
    service = Running(
        [str(HEDGEROW), "serve", "--listen", f"127.0.0.1:{port}", "--workers", "2"],
        tmp_path / "serve.log", cwd=tmp_path, environment=environment,
    )  # fmt: skip
    client = Running(
        [str(HEDGEROW), "client", f"http://127.0.0.1:{port}", "--token-file", "token", "--listen", f"127.0.0.1:{side}"],
        tmp_path / "client.log", cwd=tmp_path,
    )  # fmt: skip
    try:
        wait_for("both", lambda: "follows the lists" in service.said() or not service.alive or not client.alive)
        told = {"x-forwarded-uri": "/", "x-forwarded-method": "GET", "x-forwarded-for": "192.0.2.1"}
        for where in (port, side):
            request = urllib.request.Request(f"http://127.0.0.1:{where}/auth", headers=told)
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert answer.status == 200
        # An answer waits for whoever comes for it, at whichever worker, and once.
        later = [ask_later(port) for _ in range(12)]
        assert later == [(200, 0, 0)] * 3 + [(401, 429, 403)] * 9
    finally:
        ended = [client.stop(), service.stop()]
    assert ended == [0, 0], client.said() + service.said()
    assert "1 visits sent, 0 dropped" in client.said()
    for said in (client.said(), service.said()):
        assert "Traceback" not in said
        assert "ERROR" not in said


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_ends_a_service_cleanly_while_haproxy_is_connected(tmp_path, workers):
    port, spoe = free_port(), free_port()
    (tmp_path / "hedgerow.toml").write_text(
        f"[identity]\ntrusted_proxies = ['127.0.0.1/32']\n[serve]\nspoe = '127.0.0.1:{spoe}'\n"
    )
    service = Running(
        [str(HEDGEROW), "serve", "--listen", f"127.0.0.1:{port}", "--workers", workers],
        tmp_path / "serve.log", cwd=tmp_path, environment={"HEDGEROW__DIRECTORY": str(tmp_path / "state")},
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        try:
            wait_for("the service", lambda: answers(spoe) or not service.alive)
            hello = frame(1, 0, 0, text(b"max-frame-size") + b"\x03" + number(16_380))
            for _ in range(5):
                # As HAProxy does: the connection stays open for the next question.
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", spoe), timeout=120))
                connection.sendall(hello)
                assert connection.recv(4)
        finally:
            status = service.stop()
    assert status == 0
    assert "Traceback" not in service.said(), service.said()
    assert "CancelledError" not in service.said()


def test_pages_that_other_servers_send_have_no_marks_and_many_visitors_of_them_are_no_surge(tmp_path):
    port = free_port()
    (tmp_path / "hedgerow.toml").write_text("[identity]\ntrusted_proxies = ['127.0.0.1/32']\n")
    service = Running(
        [str(HEDGEROW), "serve", "--listen", f"127.0.0.1:{port}"],
        tmp_path / "serve.log", cwd=tmp_path, environment={"HEDGEROW__DIRECTORY": str(tmp_path / "state")},
    )  # fmt: skip
    try:
        wait_for("the service", lambda: "deciding for other servers" in service.said() or not service.alive)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        statuses = set()
        for number in range(400):
            told = {
                "x-forwarded-uri": f"/page/{number}", "x-forwarded-method": "GET", "accept": "text/html",
                "x-forwarded-for": f"10.{number // 250}.{number % 250}.1", "accept-language": "en",
            }  # fmt: skip
            connection.request("GET", "/auth", headers=told)
            answer = connection.getresponse()
            answer.read()
            statuses.add(answer.status)
        connection.close()
    finally:
        service.stop()
    assert statuses == {200}
