"""
The admin listener of any number of sites: one `Admin` for each, with the same logins.

`/sites/NAME/...` is for one site what `/...` is for the one at the top level of the settings. `/metrics`, `/live` and
`/ready` are about all sites. If there are several, metrics have the label `site`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from hedgerow.settings.sites import DEFAULT
from hedgerow.web.admin.access import Access
from hedgerow.web.admin.app import Admin, collectors
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Message, Receive, Scope, Send
from hedgerow.web.health import Health
from hedgerow.web.sites import AllSites

_PREFIX = "/sites/"


class AdminOfSites:
    """The ASGI application of the admin listener of a process."""

    def __init__(self, sites: AllSites) -> None:
        self._sites = sites
        self._access = Access()
        self._registry = CollectorRegistry()
        self._registry.register(_SitesCollector(sites))
        default = sites.all()[DEFAULT]
        upstream = default.app.settings.proxy.upstream
        admin = Admin(
            default, upstream=upstream, access=self._access, registry=self._registry,
            health=_HealthOfSites(default, upstream, self),
        )  # fmt: skip
        self._admins: dict[str, tuple[Site, Admin]] = {DEFAULT: (default, admin)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        admin, name, path = self._admins[DEFAULT][1], DEFAULT, scope["path"]
        root = ""
        if path.startswith(_PREFIX):
            named, slash, rest = path.removeprefix(_PREFIX).partition("/")
            if (found := self.admins().get(named)) is not None:
                admin, name, path, root = found, named, slash + rest or "/", _PREFIX + named
        names = tuple(self._sites.all())
        inner = {
            **scope, "path": path, "raw_path": path.encode(), "hedgerow.root": root,
            "hedgerow.sites": names if len(names) > 1 else (), "hedgerow.site": name,
        }  # fmt: skip
        await admin(inner, receive, _rooted(send, root) if root else send)

    def admins(self) -> dict[str, Admin]:
        """Return what answers for each site, by name."""
        known, self._admins = self._admins, {}
        for name, site in self._sites.all().items():
            found = known.get(name)
            # A site that was removed and added again is another one.
            if found is None or found[0] is not site:
                found = site, Admin(site, upstream=site.app.settings.proxy.upstream, access=self._access)
            self._admins[name] = found
        return {name: admin for name, (_, admin) in self._admins.items()}


def _rooted(send: Send, root: str) -> Send:
    """Return a `send` that leads to a page of the same site after a change."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (name, root.encode() + value if name == b"location" and value.startswith(b"/") else value)
                for name, value in message["headers"]
            ]
            message = {**message, "headers": headers}
        await send(message)

    return sending


class _HealthOfSites(Health):
    """The health of the site at the top level of the settings, and of all others."""

    def __init__(self, site: Site, upstream: str, admin: AdminOfSites) -> None:
        super().__init__(site, upstream)
        self._admin = admin

    async def problems(self) -> dict[str, str]:
        own = await super().problems()
        others = {name: admin.health for name, admin in self._admin.admins().items() if name != DEFAULT}
        found = await asyncio.gather(*(health.problems() for health in others.values()))
        return own | {
            f"{part} of the site {name}": text
            for name, problems in zip(others, found, strict=True)
            for part, text in problems.items()
        }


class _SitesCollector(Collector):
    """The metrics of all sites; the label `site` has as many values as there are sites."""

    def __init__(self, sites: AllSites) -> None:
        self._sites = sites

    def collect(self) -> Iterable[Metric]:
        sites = self._sites.all()
        if len(sites) == 1:
            for collector in collectors(sites[DEFAULT]):
                yield from collector.collect()
            return
        merged: dict[str, Metric] = {}
        for name, site in sites.items():
            for family in (one for collector in collectors(site) for one in collector.collect()):
                own = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                own.samples += [
                    Sample(one.name, {"site": name, **one.labels}, one.value, one.timestamp, one.exemplar)
                    for one in family.samples
                ]
        yield from merged.values()
        yield CounterMetricFamily(
            "hedgerow_unknown_hosts", "Requests for hosts that no site has, in this process", self._sites.unknown_hosts
        )
