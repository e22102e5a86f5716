"""Django's admin with a fresh database, in one file: `python site_app.py PORT FOLDER`."""

import os
import sys

from django.conf import settings

if not settings.configured:
    settings.configure(
        DEBUG=False, SECRET_KEY="only for this walk", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{os.environ['DATA']}/site.sqlite"}},
        INSTALLED_APPS=[
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
            "django.contrib.messages", "django.contrib.staticfiles",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[{
            "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
            "OPTIONS": {"context_processors": [
                "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]},
        }],
        STATIC_URL="/static/",
    )  # fmt: skip
    import django

    django.setup()

from django.contrib import admin
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]

if __name__ == "__main__":
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from django.contrib.auth.models import Group, User

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_):
            pass

    sys.modules["site_app"] = sys.modules[__name__]
    call_command("migrate", verbosity=0)
    User.objects.create_superuser("admin", "admin@example.org", "secret", date_joined="2026-01-01T00:00:00Z")
    Group.objects.bulk_create(Group(name=f"Group {n:03}") for n in range(250))
    application = StaticFilesHandler(get_wsgi_application())
    make_server("127.0.0.1", int(os.environ["PORT"]), application, Server, Quiet).serve_forever()
