"""The admin listener of several sites."""

from __future__ import annotations

import asyncio
import re

from driving import settings
from hedgerow.web.admin.sites import AdminOfSites
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.sites import FixedSites
from web.test_sites import TWO, ask, page


def test_the_dashboard_shows_one_site_and_leads_to_the_others(tmp_path):
    two = settings(TWO.format(folder=tmp_path))
    app = Hedgerow(page, settings=two)
    admin = AdminOfSites(FixedSites(app.all_sites()))
    try:
        for name in ("now", "visitors", "campaigns", "lists", "bots", "models", "reports", "settings", "audit"):
            status, body = asyncio.run(ask(admin, "127.0.0.1", f"/sites/shop/dashboard/{name}", peer="127.0.0.1"))
            assert status == 200, body
            text = body.decode()
            assert f'href="/sites/blog{"/" if name == "now" else f"/dashboard/{name}"}"' in text
            # Every link but those to other sites and to shared files stays at this site.
            links = re.findall(r'(?:href|action|hx-get|data-live)="(/[^"]*)"', text)
            others = ("/static/", "/sites/", "/logout")
            assert not [one for one in links if not one.startswith(others) and one not in switch(name)], name
        assert asyncio.run(ask(admin, "127.0.0.1", "/sites/none/dashboard/now", peer="127.0.0.1"))[0] == 404
        assert asyncio.run(ask(admin, "127.0.0.1", "/ready", peer="127.0.0.1"))[0] == 200
        metrics = asyncio.run(ask(admin, "127.0.0.1", "/metrics", peer="127.0.0.1"))[1].decode()
        assert 'hedgerow_observing{site="blog"} 1.0' in metrics
        assert 'hedgerow_observing{site="shop"} 0.0' in metrics
    finally:
        app.close()


def switch(name: str) -> set[str]:
    """The link to the site at the top level of the settings."""
    return {"/"} if name == "now" else {f"/dashboard/{name}"}
