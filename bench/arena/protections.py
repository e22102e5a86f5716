"""
The protections that the arena compares, each started anew in front of one site.

Every one is a reverse proxy on loopback that names the client's address to the site. Settings are those of each
project's documentation; what differs is said next to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from real.servers import Protect, Running, answers, clean_environment, find_program, free_port, wait_for

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "arena" / "bin" / "python"
"""The environment with crawlers and peers of other makes; `tools/arena` makes it."""
CROWDSEC = ROOT / "build" / "crowdsec"
EVASIVE = Path("/usr/lib/apache2/modules/mod_evasive20.so")
_POLL = 1.0
"""Seconds between two looks at CrowdSec's decisions."""
_NGINX = """
user root;
daemon off;
worker_processes 1;
pid {folder}/front.pid;
error_log {folder}/front.log;
events {{ worker_connections 1024; }}
http {{
client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
scgi_temp_path {folder};
{top}
server {{
  listen 127.0.0.1:{port};
  location / {{
    {here}
    proxy_pass http://127.0.0.1:{upstream};
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
  }}
}}
}}
"""
_LIMIT_ZONE = "access_log off; limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;"
_LIMIT = "limit_req zone=one burst=20 nodelay; limit_req_status 429;"
_HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend front
  bind 127.0.0.1:{port}
  stick-table type ip size 100k expire 60s store http_req_rate(3s)
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100 }}
  option forwardfor
  default_backend site
backend site
  server site 127.0.0.1:{upstream}
"""
# The values of mod_evasive's own documentation: a page twice, or fifty requests, in a second; then ten seconds.
_APACHE = """
ServerRoot {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
LoadModule evasive20_module {evasive}
User {user}
Group {group}
DOSHashTableSize 3097
DOSPageCount 2
DOSSiteCount 50
DOSPageInterval 1
DOSSiteInterval 1
DOSBlockingPeriod 10
DOSLogDir {folder}
ProxyPreserveHost On
ProxyPass / http://127.0.0.1:{upstream}/
"""
_CROWDSEC = """
common: {{daemonize: false, log_media: stdout, log_level: info, working_dir: {folder}}}
config_paths:
  config_dir: {folder}/etc/
  data_dir: {folder}/data/
  simulation_path: {folder}/etc/simulation.yaml
  hub_dir: {folder}/hub/
  index_path: {folder}/hub/.index.json
crowdsec_service: {{acquisition_path: {folder}/etc/acquis.yaml, parser_routines: 1}}
cscli: {{output: human}}
db_config: {{type: sqlite, db_path: {folder}/data/crowdsec.db, log_level: warning}}
api:
  client: {{credentials_path: {folder}/etc/credentials.yaml}}
  server:
    log_level: warning
    listen_uri: 127.0.0.1:{port}
    profiles_path: {folder}/etc/profiles.yaml
    console_path: {folder}/etc/console.yaml
prometheus: {{enabled: false}}
"""
_PARTS = {
    "parsers/s00-raw": ("syslog-logs",),
    "parsers/s01-parse": ("nginx-logs",),
    "parsers/s02-enrich": ("dateparse-enrich", "http-logs"),
    "scenarios": ("http-crawl-non_statics",),
}
"""Files of CrowdSec's hub, as Debian ships them. Its list of private addresses is left out: all clients have one."""


@dataclass(frozen=True)
class Front:
    """A running protection: its address, and the processes that it consists of."""

    url: str
    processes: tuple[Running, ...] = ()
    hedgerow: Protect | None = None

    def cpu_seconds(self) -> float:
        """Processor time that it has used since its start."""
        return sum(cpu_seconds(one.pid) for one in self.processes)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, and of all that it has started."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            number = int(entry.parent.name)
            # After the name: state, parent, ...; 11 to 14 are user and system time, its own and of ended children.
            parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))

    def belongs(number: int) -> bool:
        while number > 1:
            if number == pid:
                return True
            number = parents.get(number, 0)
        return False

    return sum(its for number, its in ticks.items() if belongs(number)) / os.sysconf("SC_CLK_TCK")


def start(protection: str, upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str = "") -> Front:
    """Start *protection* in front of the site at the port *upstream*; *stack* ends it."""
    folder = folder / "front"
    folder.mkdir()
    folder.chmod(0o755)
    return PROTECTIONS[protection](upstream, folder, stack, settings)


def missing() -> dict[str, str]:
    """Protections that cannot run on this machine, each with the package that it lacks."""
    lacking = {
        "limit_req": "" if find_program("nginx") else "nginx-light",
        "haproxy": "" if find_program("haproxy") else "haproxy",
        "mod_evasive": "" if EVASIVE.exists() and find_program("apache2") else "libapache2-mod-evasive",
        "fastapi-guard": "" if any(ROOT.glob("build/arena/lib/*/site-packages/guard")) else "fastapi-guard",
        "crowdsec": "" if (CROWDSEC / "usr/bin/crowdsec").exists() else "crowdsec",
    }
    return {name: package for name, package in lacking.items() if package}


def _none(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:  # noqa: ARG001
    return Front(f"http://127.0.0.1:{upstream}")


def _hedgerow(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str, *options: str) -> Front:
    server = Protect(f"http://127.0.0.1:{upstream}", folder, settings=settings, options=options)
    stack.callback(server.stop)
    return Front(server.url, (server.running,), server)


def _observing(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:
    return _hedgerow(upstream, folder, stack, settings, "--observe")


def _limit_req(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:  # noqa: ARG001
    return _nginx(upstream, folder, stack, _LIMIT_ZONE, _LIMIT)


def _nginx(upstream: int, folder: Path, stack: contextlib.ExitStack, top: str, here: str) -> Front:
    config = folder / "nginx.conf"
    port = free_port()
    config.write_text(_NGINX.format(folder=folder, port=port, upstream=upstream, top=top, here=here))
    return _run(
        [find_program("nginx") or "nginx", "-p", str(folder), "-c", str(config), "-e", f"{folder}/front.log"],
        port, folder, stack,
    )  # fmt: skip


def _haproxy(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:  # noqa: ARG001
    port, config = free_port(), folder / "haproxy.conf"
    config.write_text(_HAPROXY.format(port=port, upstream=upstream))
    return _run([find_program("haproxy") or "haproxy", "-db", "-f", str(config)], port, folder, stack)


def _mod_evasive(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:  # noqa: ARG001
    port, config = free_port(), folder / "apache.conf"
    folder.chmod(0o777)  # Its processes are another user's, and write a file about everybody whom they refuse.
    config.write_text(
        _APACHE.format(folder=folder, port=port, upstream=upstream, evasive=EVASIVE, user="www-data", group="www-data")
    )
    return _run([find_program("apache2") or "apache2", "-DFOREGROUND", "-f", str(config)], port, folder, stack)


def _fastapi_guard(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:  # noqa: ARG001
    port = free_port()
    command = [str(PYTHON), str(Path(__file__).with_name("guarded.py")), str(port), str(upstream)]
    return _run(command, port, folder, stack)


def _run(command: list[str], port: int, folder: Path, stack: contextlib.ExitStack) -> Front:
    running = Running(command, folder / "out.log", cwd=folder)
    stack.callback(running.stop)
    wait_for(command[0], lambda: answers(port) or not running.alive)
    assert running.alive, running.said()
    return Front(f"http://127.0.0.1:{port}", (running,))


def _crowdsec(upstream: int, folder: Path, stack: contextlib.ExitStack, settings: str) -> Front:  # noqa: ARG001
    """
    nginx, CrowdSec that reads its log, and a bouncer of our own: CrowdSec's are not in Debian's nginx.

    The bouncer asks for decisions every second and lets nginx refuse these addresses.
    """
    denied = folder / "denied.conf"
    denied.touch()
    front = _nginx(upstream, folder, stack, f"access_log {folder}/access.log combined;", f"include {denied};")
    (folder / "access.log").touch()
    port, agent = free_port(), folder / "crowdsec"
    for name in ("etc/patterns", "data", "hub"):
        (agent / name).mkdir(parents=True)
    _configure_crowdsec(agent, folder / "access.log", port)
    cscli = [str(CROWDSEC / "usr/bin/cscli"), "-c", str(agent / "config.yaml")]
    machine = agent / "etc" / "credentials.yaml"
    _said([*cscli, "machines", "add", "arena", "--password", "arena-on-loopback", "-f", str(machine)])
    key = _said([*cscli, "bouncers", "add", "arena", "-o", "raw"]).strip()
    machine.write_text(f"url: http://127.0.0.1:{port}\nlogin: arena\npassword: arena-on-loopback\n")
    program = str(CROWDSEC / "usr/bin/crowdsec")
    running = Running([program, "-c", str(agent / "config.yaml"), "-no-capi"], agent / "out.log", cwd=agent)
    stack.callback(running.stop)
    wait_for("crowdsec", lambda: "Starting processing data" in running.said() or not running.alive)
    assert running.alive, running.said()
    over = threading.Event()
    bouncer = threading.Thread(target=_refuse_decided, args=(over, port, key, denied, front.processes[0]), daemon=True)
    bouncer.start()
    stack.callback(bouncer.join, 10)
    stack.callback(over.set)
    return Front(front.url, (*front.processes, running))


def _configure_crowdsec(agent: Path, log: Path, port: int) -> None:
    etc, hub = agent / "etc", CROWDSEC / "usr/share/crowdsec/hub"
    (agent / "config.yaml").write_text(_CROWDSEC.format(folder=agent, port=port))
    (etc / "acquis.yaml").write_text(f"filenames: [{log}]\nlabels: {{type: nginx}}\n")
    for name in ("profiles.yaml", "simulation.yaml"):
        (etc / name).write_bytes((CROWDSEC / "etc/crowdsec" / name).read_bytes())
    (etc / "credentials.yaml").write_text(f"url: http://127.0.0.1:{port}\nlogin: arena\npassword: x\n")
    for pattern in (CROWDSEC / "etc/crowdsec/patterns").iterdir():
        (etc / "patterns" / pattern.name).write_bytes(pattern.read_bytes())
    index = hub / ".index.json"
    (agent / "hub" / ".index.json").write_bytes(index.read_bytes() if index.exists() else b"{}")
    for place, names in _PARTS.items():
        (etc / place).mkdir(parents=True)
        for name in names:
            (etc / place / f"{name}.yaml").write_bytes((hub / place / "crowdsecurity" / f"{name}.yaml").read_bytes())


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=clean_environment())
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def _refuse_decided(over: threading.Event, port: int, key: str, denied: Path, nginx: Running) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/decisions", headers={"X-Api-Key": key})
    before = ""
    while not over.wait(_POLL):
        with contextlib.suppress(OSError, ValueError):
            with opener.open(request, timeout=5) as answer:
                decisions = json.loads(answer.read()) or []
            lines = "".join(sorted({f"deny {one['value']};\n" for one in decisions if one["type"] == "ban"}))
            if lines != before:
                denied.write_text(lines)
                os.kill(nginx.pid, signal.SIGHUP)
                before = lines


Starter = Callable[[int, Path, contextlib.ExitStack, str], Front]
PROTECTIONS: dict[str, Starter] = {
    "none": _none,
    "limit_req": _limit_req,
    "haproxy": _haproxy,
    "mod_evasive": _mod_evasive,
    "fastapi-guard": _fastapi_guard,
    "crowdsec": _crowdsec,
    "observing": _observing,
    "hedgerow": _hedgerow,
}
