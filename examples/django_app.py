"""
Hedgerow around a Django project, in one file.

    uvicorn examples.django_app:app --no-proxy-headers

In your own project, add two lines to `asgi.py`:

    from hedgerow.asgi import Hedgerow
    application = Hedgerow(get_asgi_application(), config="hedgerow.toml")
"""

from __future__ import annotations

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from hedgerow.asgi import Hedgerow

if not settings.configured:
    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="change me", DEBUG=False)
    django.setup()


def index(request: HttpRequest) -> HttpResponse:
    links = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>' for n in range(1, 21))
    return HttpResponse(f"<!doctype html><title>Start</title><h1>Start</h1><ul>{links}</ul>")


def page(request: HttpRequest, number: int) -> HttpResponse:
    return HttpResponse(f'<!doctype html><title>{number}</title><p>Page {number}. <a href="/">Back</a>.</p>')


urlpatterns = [path("", index), path("page/<int:number>", page)]

app = Hedgerow(get_asgi_application())
