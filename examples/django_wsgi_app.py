"""
Hedgerow around a Django project under WSGI, in one file.

    gunicorn --threads 16 examples.django_wsgi_app:app

In your own project, add two lines to `wsgi.py`:

    from hedgerow.wsgi import Hedgerow
    application = Hedgerow(get_wsgi_application(), config="hedgerow.toml")
"""

from __future__ import annotations

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from hedgerow.wsgi import Hedgerow

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="change me",
        DEBUG=False,
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    )
    django.setup()


def index(request: HttpRequest) -> HttpResponse:
    links = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>' for n in range(1, 21))
    return HttpResponse(f"<!doctype html><title>Start</title><h1>Start</h1><ul>{links}</ul>")


def page(request: HttpRequest, number: int) -> HttpResponse:
    return HttpResponse(f'<!doctype html><title>{number}</title><p>Page {number}. <a href="/">Back</a>.</p>')


urlpatterns = [path("", index), path("page/<int:number>", page)]

app = Hedgerow(get_wsgi_application())
