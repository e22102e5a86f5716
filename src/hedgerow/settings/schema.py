"""All settings: the tables of `hedgerow.toml`, including those that detectors declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hedgerow.core.settings_table import Table
from hedgerow.detectors.containment import ContainmentSettings
from hedgerow.detectors.rate_limit import DensitySettings
from hedgerow.detectors.registry import registry
from hedgerow.detectors.trap import TrapSettings
from hedgerow.errors import DetectorError
from hedgerow.settings.bots import BotsSettings
from hedgerow.settings.challenge import ChallengeSettings
from hedgerow.settings.identity import IdentitySettings
from hedgerow.settings.logs import LogsSettings
from hedgerow.settings.marker import MarkerSettings
from hedgerow.settings.policy import PolicySettings
from hedgerow.settings.proxy import ProxySettings
from hedgerow.settings.responses import DetainSettings, ResponseSettings
from hedgerow.settings.serve import AdminSettings, ServeSettings
from hedgerow.settings.stores import LedgerSettings, ListsSettings, StateSettings
from hedgerow.settings.watch import CampaignSettings, WatchSettings

_T = TypeVar("_T", bound=Table)


class _Settings(Table, frozen=True):
    """The tables that do not belong to a detector alone. `Settings` adds those that detectors declare."""

    observe: bool = False
    directory: str = ""
    proxy: ProxySettings = ProxySettings()
    identity: IdentitySettings = IdentitySettings()
    bots: BotsSettings = BotsSettings()
    density: DensitySettings = DensitySettings()
    marker: MarkerSettings = MarkerSettings()
    policy: PolicySettings = PolicySettings()
    lists: ListsSettings = ListsSettings()
    traps: TrapSettings = TrapSettings()
    containment: ContainmentSettings = ContainmentSettings()
    detain: DetainSettings = DetainSettings()
    challenge: ChallengeSettings = ChallengeSettings()
    responses: ResponseSettings = ResponseSettings()
    state: StateSettings = StateSettings()
    ledger: LedgerSettings = LedgerSettings()
    watch: WatchSettings = WatchSettings()
    campaigns: CampaignSettings = CampaignSettings()
    logs: LogsSettings = LogsSettings()
    admin: AdminSettings = AdminSettings()
    serve: ServeSettings = ServeSettings()

    def table(self, kind: type[_T]) -> _T:
        """Return the table of the class *kind*."""
        tables: list[Any] = [getattr(self, name) for name in self.__struct_fields__]
        for table in tables:
            if isinstance(table, kind):
                return table
        raise LookupError(f"no settings table is a {kind.__name__}")


def _detector_tables() -> list[tuple[str, type[Table], Table]]:
    """Return the tables that detectors declare, except those with a field in `_Settings`."""
    fixed = {field.name: field.type for field in msgspec.structs.fields(_Settings)}
    tables = registry().tables()
    for name, kind in tables.items():
        if fixed.get(name, kind) is not kind:
            raise DetectorError(f"the settings table {name!r} cannot be a detector's: choose another name")
    return [(name, kind, kind()) for name, kind in tables.items() if name not in fixed]


if TYPE_CHECKING:
    Settings = _Settings
else:
    Settings = msgspec.defstruct(
        "Settings", _detector_tables(), bases=(_Settings,), module=__name__, frozen=True, forbid_unknown_fields=True
    )  # fmt: skip
