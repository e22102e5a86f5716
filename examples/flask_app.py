"""
Hedgerow around a Flask application.

    gunicorn --threads 16 examples.flask_app:app

Behind a proxy, add its address to `trusted_proxies`. Hedgerow must see the original connection: omit werkzeug's
ProxyFix, or put it inside of Hedgerow.
"""

from __future__ import annotations

from flask import Flask, Response, jsonify, request

from hedgerow.wsgi import Hedgerow

site = Flask(__name__)


@site.get("/")
def index() -> str:
    links = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>' for n in range(1, 21))
    return f"<!doctype html><title>Start</title><h1>Start</h1><ul>{links}</ul>"


@site.get("/page/<int:number>")
def page(number: int) -> str:
    return f'<!doctype html><title>{number}</title><p>Page {number}. <a href="/">Back</a>.</p>'


@site.get("/api")
def api() -> Response:
    # What Hedgerow knows about this request: request.environ["hedgerow"]["visit"].
    return jsonify(visitor=request.environ["hedgerow"]["visit"].visitor)


app = Hedgerow(site)
