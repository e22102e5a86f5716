"""DokuWiki as Debian has it, under php-fpm and nginx."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from real.servers import Nginx, Running, clean_environment, find_program, wait_for

from .seeded import seeded

TREE = Path("/usr/share/dokuwiki")
CONFIGURATION = Path("/etc/dokuwiki")
FPM = ("php-fpm8.2", "php-fpm8.4", "php-fpm8.3", "php-fpm")

USER = "hazel"
PASSWORD = "hazel-in-the-hedge"
USERS = ("ash", "beech", "hazel", "holly")

_FOLDERS = ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "pages", "tmp")
_LOCAL = """<?php
$conf['title'] = 'Hedges';
$conf['lang'] = 'en';
$conf['license'] = '';
$conf['savedir'] = '{folder}/data';
$conf['baseurl'] = '';  // taken from the Host of the request: the same wiki bare and behind a proxy
$conf['useacl'] = 1;
$conf['authtype'] = 'authplain';
$conf['superuser'] = '@admin';
$conf['disableactions'] = 'register,resendpwd';
$conf['useheading'] = '1';
$conf['updatecheck'] = 0;
$conf['gzip_output'] = 0;
$conf['maxtoclevel'] = 3;
$conf['indexdelay'] = 0;  // else robots may follow no link of a page for five days
$conf['recent_days'] = 36500;  // the seeded pages stay recent
"""
_SEED = """<?php
define('NOSESSION', 1);
$_SERVER['HTTP_HOST'] = '127.0.0.1';
$_SERVER['SERVER_PORT'] = '80';
require_once '{tree}/inc/init.php';
$INPUT->server->set('REMOTE_USER', 'ash');
foreach (json_decode(file_get_contents('php://stdin'), true) as $id => $text) {{
    saveWikiText($id, $text, 'Written down');
    idx_addPage($id);
}}
"""
_ACL = """# acl.auth.php
# <?php exit()?>
*               @ALL        1
*               @user       8
"""
_POOL = """[global]
daemonize = no
pid = {folder}/fpm.pid
error_log = {folder}/fpm.log

[wiki]
{owner}
listen = {folder}/fpm.socket
pm = static
pm.max_children = 4
catch_workers_output = yes
php_admin_value[auto_prepend_file] = {folder}/prepend.php
php_admin_value[session.save_path] = {folder}/data/tmp
php_admin_value[upload_tmp_dir] = {folder}/data/tmp
php_admin_value[error_log] = {folder}/php.log
php_admin_flag[log_errors] = on
php_admin_flag[display_errors] = off
"""
# Debian's fastcgi_params gives the host without its port, and the wiki would redirect to port 80.
_PARAMETERS = {
    "HTTP_HOST": "$http_host",
    "SCRIPT_FILENAME": "$document_root$fastcgi_script_name",
    **{name: f"${name.lower()}" for name in ("QUERY_STRING", "REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH")},
    **{name: f"${name.lower()}" for name in ("REQUEST_URI", "DOCUMENT_ROOT", "REMOTE_ADDR", "SERVER_PORT")},
    "SCRIPT_NAME": "$fastcgi_script_name",
    "GATEWAY_INTERFACE": "CGI/1.1",
    "REDIRECT_STATUS": "200",
}
_SERVER = """
    index doku.php;
    client_max_body_size 10m;
    location ~ ^/(bin|inc|vendor|install\\.php) {{ deny all; }}
    location = /favicon.ico {{ return 301 /lib/tpl/dokuwiki/images/favicon.ico; }}
    location ~ \\.php$ {{
        try_files $uri =404;
        {parameters}
        fastcgi_pass unix:{folder}/fpm.socket;
    }}
"""

KINDS = ("Trees", "Birds", "Tools", "Places")
NAMES = {
    "Trees": ("Hawthorn", "Blackthorn", "Hazel", "Holly", "Field maple", "Dogwood", "Spindle", "Elder", "Crab apple"),
    "Birds": (
        "Wren",
        "Robin",
        "Dunnock",
        "Blackbird",
        "Linnet",
        "Whitethroat",
        "Yellowhammer",
        "Bullfinch",
        "Tree sparrow",
    ),
    "Tools": ("Bill-hook", "Slasher", "Axe", "Gloves", "Mallet", "Stake", "Binder", "Saw", "Spade"),
    "Places": ("Bank", "Ditch", "Lane", "Gate", "Headland", "Corner", "Stile", "Spinney", "Green lane"),
}
SAYINGS = (
    "It is found in every county, and in the oldest hedges most of all.",
    "Those who lay hedges know it by its bark, even in the dark of January.",
    "In a wet year it does well, in a dry year nothing does.",
    "The parish books of two hundred years ago have much to say about it.",
    "Nobody plants it nowadays, and yet it is there.",
    "A good look at it is best had from the south side, early, and without a dog.",
)


class Wiki:
    """The wiki on a free port, with its own pages or these *texts*, in *folder*, which must not be there yet."""

    def __init__(self, folder: Path, texts: Mapping[str, str] | None = None) -> None:
        folder = folder.resolve()
        shutil.copytree(_site(texts), folder)
        _settle(folder)
        command = [_program(*FPM), "--nodaemonize", "--fpm-config", str(folder / "fpm.conf")]
        if os.geteuid() == 0:
            command.append("--allow-to-run-as-root")
        self._fpm = Running(command, folder / "fpm.log", cwd=folder)
        try:
            wait_for("php-fpm", lambda: (folder / "fpm.socket").exists() or not self._fpm.alive)
            assert self._fpm.alive, f"php-fpm does not start:\n{self._fpm.said()}"
            parameters = " ".join(f"fastcgi_param {name} {value};" for name, value in _PARAMETERS.items())
            server = _SERVER.format(folder=folder, parameters=parameters)
            self._nginx = Nginx(_program("nginx"), folder / "nginx", TREE, more=server)
        except AssertionError:
            self._fpm.stop()
            raise
        self.url = self._nginx.url
        self.access_log = self._nginx.access_log

    @property
    def log(self) -> Path:
        return self._nginx.log

    def stop(self) -> None:
        try:
            self._nginx.stop()
        finally:
            self._fpm.stop()


def missing_parts() -> str:
    """What the wiki needs and is not here, in words."""
    parts = {
        "dokuwiki": (TREE / "doku.php").exists(),
        "php8.2-fpm": any(map(find_program, FPM)),
        "php8.2-cli": find_program("php"),
        "nginx-light": find_program("nginx"),
    }
    return ", ".join(name for name, there in parts.items() if not there)


def pages() -> dict[str, str]:
    """The text of every page, by its id."""
    found = {"start": _start()}
    for kind in KINDS:
        found[f"{_id(kind)}:start"] = _overview(kind)
        for n, name in enumerate(NAMES[kind]):
            found[f"{_id(kind)}:{_id(name)}"] = _article(kind, n)
    return found


def _id(name: str) -> str:
    return name.lower().replace(" ", "_")


def _start() -> str:
    lines = ["====== Hedges ======", "", "All that is known about them.", ""]
    lines += [f"  * [[{_id(kind)}:start|{kind}]]" for kind in KINDS]
    lines += ["", "The most read: [[trees:hawthorn|Hawthorn]], [[birds:wren]] and [[tools:bill-hook]]."]
    return "\n".join(lines)


def _overview(kind: str) -> str:
    lines = [f"====== {kind} ======", "", f"What there is of {kind.lower()}.", ""]
    lines += [f"  - [[{_id(name)}|{name}]]" for name in NAMES[kind]]
    return "\n".join([*lines, "", "Back to [[:start|the beginning]]."])


def _article(kind: str, n: int) -> str:
    names = NAMES[kind]
    name, following = names[n], names[(n + 1) % len(names)]
    other = KINDS[(KINDS.index(kind) + 1) % len(KINDS)]
    akin = NAMES[other][n]
    lines = [
        f"====== {name} ======",
        "",
        f"**{name}** is one of the [[start|{kind.lower()}]]. {SAYINGS[n % len(SAYINGS)]}",
    ]
    for m, section in enumerate(("Looks", "Uses", "History", "Further reading")):
        lines += ["", f"===== {section} =====", ""]
        lines += [f"{SAYINGS[(n + m + k) % len(SAYINGS)]} {SAYINGS[(n + k * m) % len(SAYINGS)]}\n" for k in range(6)]
        if section == "Uses":
            lines += [f"^ month ^ {name} ^", "| May | much |", "| June | less |", ""]
            lines += [f"See [[{_id(following)}|{following}]] and [[{_id(other)}:{_id(akin)}|{akin}]]."]
        if section == "Further reading":
            onward = f"[[{_id(following)}#history|how it was with {following}]]"
            lines += [f"More about its [[#looks|looks]], or {onward}.(({SAYINGS[m]}))"]
    return "\n".join(lines)


def _site(texts: Mapping[str, str] | None) -> Path:
    version, code = (TREE / "VERSION").read_text(), Path(__file__).read_text()
    if texts is None:
        return seeded("wiki", partial(_make, texts=pages()), version, code)
    return seeded("other-wiki", partial(_make, texts=texts), version, code, json.dumps(dict(texts)))


def _make(folder: Path, *, texts: Mapping[str, str]) -> None:
    """The data, with the index of the search; what names the folder comes with every start."""
    shutil.copytree(
        CONFIGURATION, folder / "conf", ignore=shutil.ignore_patterns("*.auth.php", "local.php", "apache.conf")
    )
    (folder / "conf" / "acl.auth.php").write_text(_ACL)
    (folder / "conf" / "users.auth.php").write_text(
        "# users.auth.php\n# <?php exit()?>\n"
        + "".join(f"{name}:{_crypt(f'{name}-in-the-hedge')}:{name.title()}:{name}@example.org:user\n" for name in USERS)
    )
    for name in _FOLDERS:
        (folder / "data" / name).mkdir(parents=True)
    _settle(folder)
    (folder / "seed.php").write_text(_SEED.format(tree=TREE))
    done = subprocess.run(
        [_program("php"), "-d", f"auto_prepend_file={folder}/prepend.php", "seed.php"],
        input=json.dumps(dict(texts)),
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or done.stdout or done.stderr:
        raise RuntimeError(f"the wiki cannot be seeded:\n{(done.stdout + done.stderr)[-2000:]}")


def _settle(folder: Path) -> None:
    """Write the files in which the *folder* is named."""
    owner = "user = root\ngroup = root\nlisten.mode = 0600" if os.geteuid() == 0 else ""
    (folder / "prepend.php").write_text(
        f"<?php define('DOKU_MAIN_CONF', '{folder}/conf/'); define('DOKU_CONF', '{folder}/conf/');"
    )
    (folder / "conf" / "local.php").write_text(_LOCAL.format(folder=folder))
    (folder / "fpm.conf").write_text(_POOL.format(folder=folder, owner=owner))


def _crypt(password: str) -> str:
    """Quick, and one of the ways that DokuWiki reads."""
    return "sha1$hedge$" + hashlib.sha1(f"hedge{password}".encode()).hexdigest()


def _program(*names: str) -> str:
    for name in names:
        path = find_program(name)
        if path:
            return path
    raise RuntimeError(f"{names[0]} is missing")
