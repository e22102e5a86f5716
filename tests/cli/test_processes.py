"""What a process does beside serving: reloading."""

from __future__ import annotations

import asyncio
import gc
import weakref

from driving import Client
from hedgerow.cli import processes
from hedgerow.web.sites import Sites


def test_a_reload_frees_what_it_replaces():
    """Each reload left its images behind: a cycle of references held them, for hours where few objects are made."""
    client = Client()
    sites = Sites(client.site.app.settings, client.site, make_application=lambda *_: client.app)
    before = weakref.ref(client.site.app), weakref.ref(client.site.app.challenges)

    async def reload() -> None:
        processes._reload(sites, lambda: client.site.app.settings)
        await asyncio.sleep(0.05)

    gc.disable()
    try:
        asyncio.run(reload())
        assert [each() for each in before] == [None, None]
    finally:
        gc.enable()


def test_memory_is_released_after_a_reload(monkeypatch):
    client = Client()
    sites = Sites(client.site.app.settings, client.site, make_application=lambda *_: client.app)
    released = []
    monkeypatch.setattr(processes, "_RELEASE_AFTER", 0.01)
    monkeypatch.setattr(processes, "release_unused_memory", lambda: released.append(client.site.app))
    before = client.site.app

    async def reload() -> None:
        processes._reload(sites, lambda: client.site.app.settings)
        assert not released
        await asyncio.sleep(0.05)

    asyncio.run(reload())
    assert released == [client.site.app] != [before]


def test_old_objects_are_collected():
    """Of 1,000 collections only one looked at the oldest generation: once a day on a quiet site."""
    before = gc.get_threshold()
    try:
        processes.reduce_garbage_collection()
        first, second, third = gc.get_threshold()
        assert first >= 10_000
        assert second * third <= 25
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
