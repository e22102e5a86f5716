"""Spirit, a forum on Django and SQLite, under gunicorn."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from real.servers import Running, answers, clean_environment, wait_for

from .seeded import seeded

PACKAGES = (
    "django-spirit==0.14.3",
    "django-djconfig==0.11.0",
    "django-haystack==3.4.0",
    "django-infinite-scroll-pagination==1.3.0",
    "gunicorn==27.0.0",
    "mistune==0.8.4",
    "olefile==0.47",
    "pillow==13.0.0",
    "Whoosh==2.7.4",
)
"""Spirit and what it needs besides the Django that the project has."""

USER = "hazel"
PASSWORD = "hazel-in-the-hedge"

_SETTINGS = """
from forum.settings.base import *

DEBUG = False
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "hedge.urls"
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.path.join(BASE_DIR, "db.sqlite3"),
    "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
}}
MEMORY = "django.core.cache.backends.locmem.LocMemCache"
CACHES = {
    "default": {"BACKEND": MEMORY},
    "st_rate_limit": {"BACKEND": MEMORY, "LOCATION": "limits", "TIMEOUT": None},
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = os.path.join(BASE_DIR, "mail")
ST_SITE_URL = "http://127.0.0.1/"
ST_RATELIMIT_ENABLE = False  # a scenario posts quicker than a person
"""
_URLS = """
from django.conf import settings
from django.http import HttpResponse
from django.urls import include, path, re_path
from django.views.static import serve

urlpatterns = [
    path("", include("spirit.urls")),
    path("favicon.ico", lambda request: HttpResponse(content_type="image/x-icon")),  # Spirit has none, browsers ask
    re_path("^media/(?P<path>.*)$", serve, {"document_root": settings.MEDIA_ROOT}),
]
"""
_WSGI = """
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application



class Static(StaticFilesHandler):
    def serve(self, request):
        response = super().serve(request)
        response["Cache-Control"] = "max-age=3600"
        return response


application = Static(get_wsgi_application())
"""
_FILES = {
    "__init__.py": "",
    "settings.py": _SETTINGS,
    "urls.py": _URLS,
    "wsgi.py": _WSGI,
    "seed.py": Path(__file__).with_name("forum_seed.py").read_text(),
}


class Forum:
    """The forum on a free port, with a database of its own in *folder*, which must not be there yet."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(_site(), folder)
        command = [sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:0", "--threads", "4"]
        command += ["--no-control-socket", "hedge.wsgi"]  # which would be one for all, in the home folder
        self.running = Running(command, folder / "gunicorn.log", cwd=folder, environment=_environment())
        try:
            wait_for("gunicorn", lambda: self._port() or not self.running.alive)
            wait_for("the forum", lambda: answers(self._port()) or not self.running.alive)
        except AssertionError:
            self.running.stop()
            raise
        assert self.running.alive, f"the forum does not start:\n{self.running.said()}"
        self.url = f"http://127.0.0.1:{self._port()}"

    def _port(self) -> int:
        found = re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", self.running.said())
        return int(found[1]) if found else 0

    @property
    def log(self) -> Path:
        return self.running.log

    def stop(self) -> None:
        self.running.stop()


def missing_parts() -> str:
    """What the forum needs and is not here, in words."""
    try:
        _packages()
    except RuntimeError as fault:
        return f"django-spirit (pip install {' '.join(PACKAGES)}), and it could not be had: {fault}"
    return ""


def _packages() -> Path | None:
    """Where Spirit is, if not where everything else is."""
    if all(importlib.util.find_spec(name) for name in ("spirit", "gunicorn")):
        return None
    return seeded("packages", _install, *PACKAGES, sys.version)


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # With the proxies of the environment, if there are any: this one may leave the machine.
    _run([*pip, "--target", str(folder), *PACKAGES], cwd=folder, environment=dict(os.environ))


def _environment() -> dict[str, str]:
    packages = _packages()
    path = {"PYTHONPATH": str(packages)} if packages else {}
    return {**path, "DJANGO_SETTINGS_MODULE": "hedge.settings", "PYTHONWARNINGS": "ignore"}


def _site() -> Path:
    django = importlib.metadata.version("django")
    return seeded("forum", _make, *PACKAGES, django, *_FILES.values())


def _make(folder: Path) -> None:
    environment = _environment()
    where = "import spirit, pathlib; print(pathlib.Path(spirit.__file__).parent)"
    spirit = Path(_run([sys.executable, "-c", where], cwd=folder, environment=environment).strip())
    template = f"--template={spirit / 'extra' / 'project_template'}"
    plain = {**environment, "DJANGO_SETTINGS_MODULE": ""}
    _run([sys.executable, "-m", "django", "startproject", template, "forum", "."], cwd=folder, environment=plain)
    (folder / "hedge").mkdir()
    for name, text in _FILES.items():
        (folder / "hedge" / name).write_text(text)
    _run([sys.executable, "-m", "hedge.seed"], cwd=folder, environment=environment)


def _run(command: list[str], *, cwd: Path, environment: dict[str, str]) -> str:
    path = ":".join(filter(None, [environment.get("PYTHONPATH"), str(cwd)]))
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment(**{**environment, "PYTHONPATH": path}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout
