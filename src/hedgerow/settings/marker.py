"""The table [marker]: how links are marked."""

from __future__ import annotations

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.markers.rules import Mode
from hedgerow.settings.checks import is_path_start


class MarkerRule(Table, frozen=True):
    """The mode of links to paths of this form. `*` stands for anything."""

    path: str
    mode: Mode


DEFAULT_MARKER_RULES = tuple(
    MarkerRule(path, "off")
    for path in (
        "/api/*", "*/api/*", "/graphql*", "*/feed", "*/feed/", "/feed*", "*/rss*", "*.git/*", "/.well-known/*",
    )
)  # fmt: skip
# DokuWiki: the sitemap and the media manager send the text after the "?" of a link, or of their own address.
SCRIPTED_RULES = tuple(
    MarkerRule(path, "readable")
    for path in ("*?idx=*", "*/doku.php?*idx=*", "*?*do=media*", "*/lib/exe/mediamanager.php")
)
"""Links that scripts of well-known applications parse. In mode "opaque" these rules come after all others."""


class MarkerSettings(Table, frozen=True):
    mode: Mode = "opaque"
    rules: tuple[MarkerRule, ...] = DEFAULT_MARKER_RULES
    prefix: str = "/~"
    strict: bool = False
    entries: tuple[str, ...] = ("/",)
    overlap_days: float = 400.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "overlap_days")
        if not is_path_start(self.prefix):
            yield (
                "prefix",
                f"{self.prefix!r} must start with / and contain only letters, digits and . _ ~ - /, no . or .. alone",
            )
        if self.strict and self.mode == "off" and all(rule.mode == "off" for rule in self.rules):
            yield "strict", "needs marked links; set mode"
        for rule in self.rules:
            if not rule.path.startswith(("/", "*")):
                yield "rules", f"{rule.path!r} must start with / or *"
