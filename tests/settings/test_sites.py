"""What a `[[site]]` takes over from the common settings. Its faults are in `bad/sites.toml`."""

from __future__ import annotations

import msgspec

from driving import settings
from hedgerow.settings import Settings
from hedgerow.settings.sites import with_every_site

TEXT = """
observe = true
[policy]
suspects = "refuse"
half_life = 60
[lists]
path = "/var/lib/common.sqlite"
[[lists.subscriptions]]
name = "others"
file = "/srv/list.txt"
[[path]]
path = "/common/*"
protection = "off"
[[site]]
name = "shop"
hosts = ["shop.test"]
upstream = "http://127.0.0.1:8001"
observe = false
[site.policy]
half_life = 120
[[site.path]]
path = "/own/*"
protection = "off"
[[site]]
name = "blog"
hosts = ["blog.test"]
"""


def test_a_site_takes_over_what_it_does_not_set():
    found = settings(TEXT)
    shop, blog = (entry.settings for entry in found.site)
    assert (shop.observe, blog.observe) == (False, True)
    assert (shop.policy.suspects, shop.policy.half_life, blog.policy.half_life) == ("refuse", 120, 60)
    assert [rule.path for rule in shop.path] == ["/own/*"]
    assert [rule.path for rule in blog.path] == ["/common/*"]
    assert (shop.proxy.upstream, blog.proxy.upstream) == ("http://127.0.0.1:8001", "")
    assert shop.site == ()


def test_a_site_never_takes_over_the_data_of_others():
    found = settings(TEXT)
    for entry in found.site:
        assert entry.settings.lists.path == ""
        assert entry.settings.lists.subscriptions == ()
        assert entry.settings.state.prefix == f"hedgerow:site:{entry.name}:"
        assert entry.settings.alerts.site == entry.name
    assert found.lists.subscriptions


def test_settings_with_sites_survive_the_run_file():
    found = settings(TEXT)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Settings) == found


def test_a_change_reaches_every_site():
    changed = with_every_site(settings(TEXT), lambda one: msgspec.structs.replace(one, observe="links"))
    assert [changed.observe, *(entry.settings.observe for entry in changed.site)] == ["links"] * 3
