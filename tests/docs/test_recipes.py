"""Each recipe can be used as it stands, and its rules mean the addresses that they are for."""

from __future__ import annotations

import pytest

from hedgerow.request.path_rules import PathRules
from hedgerow.settings import Settings, read_settings
from hedgerow.settings.dangers import dangers

from .recipes import PAGE, recipes

RECIPES = recipes()
# What the rule for an address says. Those that are named after nothing have no rule.
ADDRESSES = {
    "WordPress": {
        "/wp-cron.php?doing_wp_cron=1700000000.5": "protection off",
        "/wp-login.php?redirect_to=%2Fwp-admin%2F": "limits 20 requests in 600 s, marks off, traps off",
        "/wp-admin/post.php?post=7&action=edit": "marks off, traps off",
        "/wp-json/wp/v2/posts": "limits 300 everything in 60 s, marks off, traps off",
        "/?s=hedges": "limits 20 requests in 60 s",
        "/2026/11/a-post/": "",
        "/feed/": "",
    },
    "MediaWiki": {
        "/load.php?lang=en&modules=site.styles": "protection off",
        "/index.php?title=Special:UserLogin&returnto=Main+Page": "marks off, traps off",
        "/index.php?title=Special%3AUserLogin": "marks off, traps off",
        "/wiki/Special:UserLogin": "marks off, traps off",
        "/index.php?title=Hedge&action=history": "clearance needed",
        "/index.php?title=Hedge&diff=12&oldid=11": "clearance needed",
        "/wiki/Special:WhatLinksHere/Hedge": "clearance needed",
        "/index.php?search=hawthorn": "limits 20 requests in 60 s",
        "/index.php?title=Hedge&action=edit": "marks off, traps off, clearance needed",
        "/wiki/Hedge": "",
        "/index.php/Hedge": "",
    },
    "Gitea and cgit": {
        "/me/hedges.git/info/refs?service=git-upload-pack": "",
        "/me/hedges/src/branch/main/README.md": "",
        "/me/hedges/commits/branch/main": "clearance needed",
        "/me/hedges/blame/branch/main/a.py": "clearance needed",
        "/me/hedges/archive/main.tar.gz": "limits 20 everything in 3600 s",
        "/hedges/snapshot/hedges-1.0.tar.gz": "limits 20 everything in 3600 s",
        "/hedges/diff/?id=0123456789abcdef": "clearance needed",
        "/hedges/log/?ofs=50": "clearance needed",
        "/hedges/log/": "",
        "/api/v1/repos/me/hedges": "limits 200 everything in 60 s, marks off, traps off",
    },
    "Forums": {
        "/search?q=hedge": "limits 15 requests in 60 s",
        "/message-bus/0123/poll": "protection off",
        "/users/list": "clearance needed",
        "/t/a-topic/17": "",
        "/posting.php?mode=reply&t=7": "marks off, traps off",
    },
    "DokuWiki": {
        "/lib/exe/fetch.php?media=wiki:logo.png": "protection off",
        "/doku.php?id=start&do=diff": "clearance needed",
        "/doku.php?id=start&rev=1700000000": "clearance needed",
        "/doku.php?id=start&do=edit": "marks off, traps off",
        "/doku.php?id=start&do=login&sectok=": "limits 20 requests in 600 s, marks off, traps off",
        "/doku.php?id=start": "",
        "/feed.php": "",
    },
    "Django": {
        "/static/admin/css/base.css": "protection off",
        "/admin/login/?next=/admin/": "limits 20 requests in 600 s, marks off, traps off",
        "/admin/auth/user/": "marks off, traps off",
        "/api/books/7": "limits 200 everything in 60 s, marks off, traps off",
        "/books/7/": "",
    },
    "Static documentation": {
        "/_static/doctools.js": "protection off",
        "/de/searchindex.js": "protection off",
        "/manual.pdf": "limits 30 everything in 3600 s",
        "/chapter/1.html": "",
    },
    "An API next to pages": {
        "/hooks/payment": "protection off",
        "/healthz": "protection off",
        "/api/v1/export?format=csv": "limits 5 everything in 600 s, marks off, traps off",
        "/api/v1/books": "limits 600 everything in 60 s, marks off, traps off",
        "/docs/api/books": "challenges work, image",
        "/about": "",
    },
}


def settings_of(name: str) -> Settings:
    return read_settings(RECIPES[name], name=name, environment={})


def test_every_recipe_is_looked_at_here():
    assert set(RECIPES) == set(ADDRESSES)
    assert PAGE.read_text("utf-8").count("```toml") == len(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_complete_and_without_dangers(name):
    settings = settings_of(name)
    assert list(dangers(settings)) == []
    assert settings.observe, "who tries a recipe disturbs nobody"
    assert settings.proxy.upstream
    assert settings.admin.listen.startswith("127.0.0.1:")
    # Without the one line it enforces: nothing else says that it only observes.
    assert not read_settings(RECIPES[name].replace("observe = true\n", ""), environment={}).observe


@pytest.mark.parametrize(("name", "address"), [(name, one) for name, each in ADDRESSES.items() for one in each])
def test_a_rule_means_the_addresses_that_it_is_for(name, address):
    found = PathRules(settings_of(name).path).find(address)
    assert (found.rule.described() if found is not None else "") == ADDRESSES[name][address]


@pytest.mark.parametrize("name", RECIPES)
def test_every_rule_of_a_recipe_is_of_use(name):
    """No rule stands behind one that takes all its addresses: each one is found by its own pattern."""
    rules = PathRules(settings_of(name).path)
    for one in rules.rules:
        sample = one.rule.path.replace("*", "x")
        assert rules.find(sample) is one, f"{one.rule.path} is never reached by {sample}"
