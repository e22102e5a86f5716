"""What is in `deploy/`, before real servers: each configuration does what its comments say."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml
from envoy.config.bootstrap.v3.bootstrap_pb2 import Bootstrap
from envoy.extensions.filters.http.ext_authz.v3 import ext_authz_pb2  # noqa: F401 - what Envoy's file names is known by it
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2  # noqa: F401
from google.protobuf import json_format

from challenge.solver import answers_of
from driving import marked_links_in, traps_in
from hedgerow.lists.model import Listing
from hedgerow.services.decision_service import DecisionService
from hedgerow.services.spoe import Spoe
from serving_clients import TOKEN, following, served

from .conftest import missing
from .forms import AsgiServer, DeployedNginx, Form, Got, ProxyForm, WsgiServer, asgi_site, send, wsgi_site
from .servers import HEDGEROW, Running, answers, free_port, stopping, wait_for
from .test_forms import CONTAINED, FIREFOX, ME, OTHER, PAGE, SMALL

DEPLOY = Path(__file__).parents[2] / "deploy"
EDITED = "127.0.0.40"
LINKED = ("Referer", "http://shop.example/")
"""With it a page counts as read. Over plain HTTP, pages that no link of the site led to count apart from a form."""


@pytest.fixture(scope="module")
def site() -> Iterator[WsgiServer]:
    server = WsgiServer(wsgi_site)
    yield server
    server.stop()


@pytest.fixture
def proxy(site) -> Iterator[ProxyForm]:
    form = ProxyForm(site.port)
    yield form
    form.stop()


class ServiceForm(Form):
    """`hedgerow serve`, for a front that a test starts."""

    def __init__(self) -> None:
        super().__init__()
        self.server = AsgiServer(asgi_site)

    def begin(self, site) -> None:
        self.server.app = DecisionService(site, self.clock)

    def stop(self) -> None:
        super().stop()
        self.server.stop()


@pytest.fixture
def service() -> Iterator[ServiceForm]:
    form = ServiceForm()
    yield form
    form.stop()


def with_ports(name: str, changes: dict[str, object]) -> str:
    """A file of `deploy/`, with what is another here."""
    text = (DEPLOY / name).read_text()
    for written, meant in changes.items():
        assert written in text, written
        text = text.replace(written, str(meant))
    return text


def started(command: list[str], folder: Path, port: int) -> Running:
    running = Running(command, folder / "server.log", cwd=folder)
    wait_for(command[0], lambda: answers(port) or not running.alive)
    assert running.alive, running.said()
    return running


def get(port: int, target: str, address: str = ME, **more) -> Got:
    headers = [*FIREFOX, PAGE, *more.pop("more", [])]
    return send(port, target, address=address, headers=headers, **more)


# ---- Caddy


def test_caddy_asks_and_shows_what_it_is_told(program, service, site, tmp_path):
    port = free_port()
    text = with_ports(
        "caddy/Caddyfile",
        {
            "shop.example {": f"http://:{port} {{\n\tbind 127.0.0.1",
            ":8090": f":{service.server.port}",
            ":8000": f":{site.port}",
        },
    )
    (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    command = [program("caddy"), "run", "--config", "Caddyfile", "--adapter", "caddyfile"]
    with stopping(started(command, tmp_path, port)):
        service.use(CONTAINED, [Listing("black", OTHER)], observe=False)
        lies = [("X-Forwarded-Uri", "/style.css"), ("X-Forwarded-Method", "POST"), ("X-Forwarded-For", "10.9.8.7")]
        assert get(port, "/item/1?a=b", more=lies).status == 200
        wait_for("the visit", lambda: service.entries)
        visit = service.entries[0].visit
        assert (visit.address, visit.target, visit.method, visit.host) == (ME, "/item/1?a=b", "GET", "shop.example")
        refused = get(port, "/item/1", OTHER)
        assert refused.status == 403
        assert refused.headers["hedgerow-decision"].startswith("refuse; code=list-black")
        get(port, "/item/2")
        page = get(port, "/item/3")
        assert page.status == 403
        assert page.headers["hedgerow-decision"].startswith("challenge; code=")
        script = re.search(rb'src="(/\.hedgerow/[^"]+\.js[^"]*)"', page.body)
        assert script
        assert get(port, script[1].decode()).status == 200
        service.clock.now += 1
        form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "http://shop.example")]
        solved = get(
            port, "/.hedgerow/answer", method="POST", more=form, body=urlencode(answers_of(page.body)).encode()
        )
        assert (solved.status, solved.headers["location"]) == (303, "/item/3")
        cookie = ("Cookie", solved.headers["set-cookie"].partition(";")[0])
        assert get(port, "/item/3", more=[cookie]).status == 200


# ---- Pages through Hedgerow, assets direct: nginx, HAProxy, Apache


def pages_through(proxy: ProxyForm, port: int) -> None:
    """The same of each: pages are marked and trapped, assets are not seen, addresses are the visitors'."""
    proxy.use("", (), observe=False)
    lies = [("X-Forwarded-For", "10.9.8.7"), ("Forwarded", "for=10.9.8.7")]
    page = get(port, "/item/1", more=lies)
    assert page.status == 200
    assert len(traps_in(page.body)) > 1
    wait_for("the visit", lambda: proxy.entries)
    assert proxy.entries[0].visit.address == ME
    style = get(port, "/style.css")
    assert (style.status, style.body) == (200, b"a { color: green }")
    assert len(proxy.entries) == 1, "the asset went through Hedgerow"
    assert get(port, marked_links_in(page.body)[0]).status == 200
    assert get(port, traps_in(page.body)[0]).status == 403
    assert get(port, "/item/2").status == 403
    assert get(port, "/item/2", OTHER).status == 200
    wait_for("all visits", lambda: len(proxy.entries) == 5)
    assert [entry.visit.address for entry in proxy.entries] == [ME] * 4 + [OTHER]


def test_nginx_with_pages_through(program, proxy, site, tmp_path):
    nginx = DeployedNginx(program("nginx"), tmp_path, "pages-through.conf", {8080: proxy.port, 8000: site.port})
    try:
        pages_through(proxy, nginx.port)
    finally:
        nginx.stop()


def test_haproxy(program, proxy, site, tmp_path):
    port, listed = free_port(), tmp_path / "listed.map"
    listed.write_text(f"# ours\n127.0.0.40/29 black\n{EDITED} white\n127.0.0.41 black\n")
    text = with_ports(
        "haproxy/haproxy.cfg",
        {"bind :80": f"bind 127.0.0.1:{port}", ":8080": f":{proxy.port}", ":8000": f":{site.port}",
         "/var/lib/hedgerow/listed.map": listed},
    )  # fmt: skip
    (tmp_path / "haproxy.cfg").write_text(text)
    check = subprocess.run(
        [program("haproxy"), "-c", "-f", "haproxy.cfg"], cwd=tmp_path, capture_output=True, check=False
    )
    assert check.returncode == 0, check.stderr
    with stopping(started([program("haproxy"), "-db", "-f", "haproxy.cfg"], tmp_path, port)):
        pages_through(proxy, port)
        statuses = {address: get(port, "/item/1", address).status for address in (EDITED, "127.0.0.41", "127.0.0.43")}
        assert statuses == {EDITED: 200, "127.0.0.41": 403, "127.0.0.43": 403}


def test_haproxy_asks_by_spoe(program, service, site, tmp_path):
    port, spoe = free_port(), socket.create_server(("127.0.0.1", 0))
    agent = Agent(service, spoe)
    text = with_ports(
        "haproxy/forward-auth.cfg",
        {"bind :80\n": f"bind 127.0.0.1:{port}\n", ":8090": f":{service.server.port}", ":8000": f":{site.port}",
         ":8092": f":{spoe.getsockname()[1]}", "/etc/haproxy/spoe.conf": tmp_path / "spoe.conf"},
    )  # fmt: skip
    (tmp_path / "haproxy.cfg").write_text(text)
    (tmp_path / "spoe.conf").write_text(with_ports("haproxy/spoe.conf", {"500ms": "120s", "hello 2s": "hello 120s"}))
    service.use(CONTAINED, [Listing("black", OTHER)], observe=False)
    with stopping(agent, started([program("haproxy"), "-db", "-f", "haproxy.cfg"], tmp_path, port)):
        asks_and_shows(service, port)
        assert get(port, "/item/1", OTHER, more=[("X-Long", "x" * 11_000)]).status == 400, "it cannot be asked about"
        assert get(port, "/" + "x" * 5_000, OTHER).status == 400


def asks_and_shows(service: ServiceForm, port: int) -> None:
    """The same of each front that asks and comes back for the answer: lists, a challenge that keeps a form, its end."""
    lies = [("X-Forwarded-Uri", "/style.css"), ("X-Forwarded-Method", "POST"), ("X-Forwarded-For", "10.9.8.7"),
            ("X-Hedgerow-Ref", "x")]  # fmt: skip
    passed = get(port, "/item/1?a=b", more=[LINKED, *lies])
    assert passed.status == 200
    assert b"/item/1" in passed.body
    wait_for("the visit", lambda: service.entries)
    visit = service.entries[0].visit
    assert (visit.address, visit.target, visit.method, visit.host) == (ME, "/item/1?a=b", "GET", "shop.example")
    refused = get(port, "/item/1", OTHER)
    assert refused.status == 403
    assert refused.headers["hedgerow-decision"].startswith("refuse; code=list-black")
    assert get(port, "/item/2", more=[LINKED]).status == 200
    form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "http://shop.example")]
    page = get(port, "/comment", method="POST", more=form, body=b"text=hello")
    assert page.status == 403
    assert page.headers["hedgerow-decision"].startswith("challenge; code=")
    service.clock.now += 1
    answer = urlencode(answers_of(page.body)).encode()
    solved = get(port, "/.hedgerow/answer", method="POST", more=form, body=answer)
    assert solved.status == 200
    assert b'value="hello"' in solved.body
    cookie = ("Cookie", solved.headers["set-cookie"].partition(";")[0])
    assert get(port, "/item/3", more=[cookie]).status == 200


class Agent:
    """The part of a service that speaks SPOE, on a loop of its own."""

    def __init__(self, service: ServiceForm, bound: socket.socket) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def question(asked):
            return await service.server.app.auth.question(asked)

        self.spoe = Spoe(question, lambda peer: peer == "127.0.0.1")
        asyncio.run_coroutine_threadsafe(self.spoe.start(bound), self._loop).result(30)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.spoe.close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def apache(program: str, folder: Path, port: int, text: str, modules: tuple[str, ...]) -> Running:
    where = Path("/usr/lib/apache2/modules")
    if not where.exists():
        missing("Apache's modules")
    loaded = "".join(
        f"LoadModule {name}_module {where}/mod_{name}.so\n" for name in ("mpm_event", "authz_core", *modules)
    )
    (folder / "apache.conf").write_text(
        f"{loaded}ServerName localhost\nListen 127.0.0.1:{port}\nPidFile {folder}/pid\n"
        f"ErrorLog {folder}/error.log\nUser www-data\nGroup www-data\nDefaultRuntimeDir {folder}\n{text}"
    )
    # It reads maps and scripts as another user.
    for above in (folder, *folder.parents):
        if len(above.parts) > 2:
            above.chmod(above.stat().st_mode | 0o055)
    return started([program, "-DFOREGROUND", "-f", str(folder / "apache.conf")], folder, port)


def test_apache(program, proxy, site, tmp_path):
    port, listed = free_port(), tmp_path / "listed.map"
    listed.write_text("# ours\n127.0.0.41 black\n")
    text = with_ports(
        "apache/hedgerow.conf",
        {"*:80>": f"127.0.0.1:{port}>", ":8080": f":{proxy.port}", ":8000": f":{site.port}",
         "/var/lib/hedgerow/listed.map": listed},
    )  # fmt: skip
    with stopping(apache(program("apache2"), tmp_path, port, text, ("proxy", "proxy_http", "rewrite", "headers"))):
        pages_through(proxy, port)
        assert get(port, "/item/1", "127.0.0.41").status == 403
        listed.write_text("127.0.0.42 black\n")
        wait_for("Apache reads the map again", lambda: get(port, "/item/1", "127.0.0.42").status == 403)


def test_apache_asks_by_lua(program, service, site, tmp_path):
    """Lists, a challenge that keeps a form, and its solution; and the site stays open while nobody answers."""
    if not Path("/usr/share/lua/5.3/socket.lua").exists():
        missing("lua-socket")
    port = free_port()
    script = with_ports("apache/hedgerow.lua", {"8090, 2\n": f"{service.server.port}, 120\n"})
    (tmp_path / "hedgerow.lua").write_text(script)
    text = with_ports(
        "apache/forward-auth.conf",
        {
            "*:80>": f"127.0.0.1:{port}>",
            ":8000": f":{site.port}",
            "/etc/apache2/hedgerow.lua": tmp_path / "hedgerow.lua",
        },
    )
    with stopping(apache(program("apache2"), tmp_path, port, text, ("proxy", "proxy_http", "lua"))):
        service.use(CONTAINED, [Listing("black", OTHER)], observe=False)
        asks_and_shows(service, port)
        service.server.stop()
        assert get(port, "/item/4", OTHER).status == 200


# ---- nginx and the ban-list client


def test_nginx_with_the_file_of_a_ban_list_client(program, site, tmp_path):
    """A crawler is caught by the requests that nginx mirrors, and kept out by the file that the client writes."""
    listed, token = tmp_path / "nginx-geo.conf", tmp_path / "token"
    token.write_text(TOKEN + "\n")
    with served(tmp_path / "state", SMALL) as service:
        service.store.put([Listing("black", OTHER), Listing("black", "account:eve")])
        folder = tmp_path / "nginx"
        folder.mkdir()
        port = free_port()
        command = [
            str(HEDGEROW), "client", service.url, "--token-file", str(token), "--listen", f"127.0.0.1:{port}",
            "--nginx", str(listed), "--reload", f"{program('nginx')} -p {folder} -c nginx.conf -s reload",
        ]  # fmt: skip
        listed.write_text("")
        nginx = DeployedNginx(
            program("nginx"), folder, "ban-list.conf", {8091: port, 8000: site.port},
            {"/var/lib/hedgerow/nginx-geo.conf": listed},
        )  # fmt: skip
        try:
            with stopping(Running(command, tmp_path / "client.log", cwd=tmp_path)):
                wait_for("the file", lambda: f"{OTHER} black;" in listed.read_text())
                assert "eve" not in listed.read_text()
                wait_for("nginx has read it", lambda: get(nginx.port, "/item/0", OTHER).status == 403)
                for n in range(5):
                    get(nginx.port, f"/item/{n}")
                wait_for("the crawler is kept out", lambda: get(nginx.port, "/item/9").status == 403)
                visit = next(entry.visit for entry in service.entries if entry.visit.address == ME)
                assert (visit.host, visit.target) == ("shop.example", "/item/0")
                service.store.remove("black", OTHER)
                wait_for("the list is shorter", lambda: get(nginx.port, "/item/0", OTHER).status == 200)
        finally:
            nginx.stop()


def test_a_change_reaches_a_client_in_a_process_of_its_own(tmp_path):
    """The sidecar answers from its own memory, and knows a change by itself."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with served(tmp_path / "state") as service, following(service):
        port = free_port()
        command = [
            str(HEDGEROW), "client", service.url, "--token-file", str(token), "--listen", f"127.0.0.1:{port}",
        ]  # fmt: skip

        def asked(address: str) -> int:
            told = [("X-Forwarded-Uri", "/x"), ("X-Forwarded-Method", "GET"), ("X-Forwarded-For", address)]
            return send(port, "/auth", address="127.0.0.1", headers=told).status

        with stopping(Running(command, tmp_path / "client.log", cwd=tmp_path)):
            wait_for("the sidecar", lambda: answers(port))
            assert asked(ME) == 200
            service.store.put([Listing("black", ME)])
            wait_for("the change", lambda: asked(ME) == 403)
            assert send(port, "/auth", address=OTHER).status == 403
            assert send(port, "/x", address="127.0.0.1").status == 404


# ---- Packages


def test_the_unit_is_well_formed(tmp_path):
    """systemd itself reads it; and its command is one that there is."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze")
    text = (DEPLOY / "systemd" / "hedgerow.service").read_text()
    unit = tmp_path / "hedgerow.service"
    unit.write_text(text.replace("/opt/hedgerow/bin/hedgerow", str(HEDGEROW)))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    line = re.search(r"^ExecStart=\S+ (.*)$", text, flags=re.MULTILINE)
    assert line
    options = re.findall(r"--\w+", line[1])
    told = subprocess.run([HEDGEROW, "protect", "--help"], capture_output=True, text=True, check=True).stdout
    assert options
    assert all(option in told for option in options)


def checked(name: str, *words: str) -> None:
    """What a linter has nothing to say of."""
    done = subprocess.run([HEDGEROW.with_name(name), *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["docker/compose.yaml", "traefik/dynamic.yml", "envoy/envoy.yaml"])
def test_what_is_yaml_can_be_read(name):
    text = (DEPLOY / name).read_text()
    found = yaml.safe_load(text)
    if name.startswith("docker"):
        built = DEPLOY / "docker" / found["services"]["hedgerow"]["build"]["context"]
        assert (built / found["services"]["hedgerow"]["build"]["dockerfile"]).exists()
        assert found["services"]["hedgerow"]["command"][0] == "protect"
        assert set(found["volumes"]) == {"state"}
        service = found["services"]["hedgerow"]
        ports = {mapping.rpartition(":")[2] for mapping in service["ports"]}
        listening = {word.rpartition(":")[2] for word in service["command"] if word.startswith("0.0.0.0:")}
        exposed = re.search(r"^EXPOSE (.*)$", (DEPLOY / "docker" / "Dockerfile").read_text(), re.MULTILINE)
        assert ports == listening == {"8080", "8081"} <= set(exposed[1].split())
        # Whoever reaches the port of the machine needs the token, and only the machine itself reaches it.
        assert "HEDGEROW__ADMIN__TOKEN" in service["environment"]
        assert "127.0.0.1:8081:8081" in service["ports"]
        checked("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / name))
    elif name.startswith("traefik"):
        http = found["http"]
        for router in http["routers"].values():
            assert router["service"] in http["services"]
            assert set(router.get("middlewares", ())) <= set(http["middlewares"])
        assert http["middlewares"]["hedgerow"]["forwardAuth"]["trustForwardHeader"] is False
    else:
        # As Envoy itself reads it: every name and every value is one that its messages have.
        json_format.ParseDict(found, Bootstrap())
        clusters = {cluster["name"] for cluster in found["static_resources"]["clusters"]}
        assert set(re.findall(r"cluster: (\w+)", text)) <= clusters


def test_the_dockerfile_copies_what_is_there_and_runs_as_nobody():
    root, text = DEPLOY.parent, (DEPLOY / "docker" / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, flags=re.MULTILINE):
        for name in line.split():
            assert (root / name).exists(), name
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001$", last, flags=re.MULTILINE)
    checked("hadolint", "--no-color", str(DEPLOY / "docker" / "Dockerfile"))
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]["hedgerow"]
