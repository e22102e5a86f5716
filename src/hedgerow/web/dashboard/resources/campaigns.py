"""`stored-campaigns`: campaigns with all of their members, one part after another."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.core.decision import Campaign
from hedgerow.web.dashboard.page import Context, Page
from hedgerow.web.dashboard.resource_types import StoredCampaigns

_MEMBERS_AT_ONCE = 5000


class CampaignsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=100, description="The id after which to continue: that in `next`.")] = ""
    id: Annotated[str, Meta(max_length=100, description="Only this campaign.")] = ""


def query(context: Context, parameters: CampaignsParameters) -> StoredCampaigns:
    every = sorted(context.site.campaigns(), key=lambda one: one.id)
    if parameters.id:
        return StoredCampaigns([one for one in every if one.id == parameters.id.upper()], None)
    every = [one for one in every if one.id > parameters.after]
    members, found = 0, list[Campaign]()
    for one in every:
        if found and members + len(one.members) > _MEMBERS_AT_ONCE:
            break
        found.append(one)
        members += len(one.members)
    return StoredCampaigns(found, found[-1].id if len(found) < len(every) else None)


RESOURCE = Page(
    name="stored-campaigns",
    title="Stored campaigns",
    summary="Campaigns with all of their members, in the order of their ids, one part after another.",
    query=query,
    result=StoredCampaigns,
    parameters=CampaignsParameters,
    in_navigation=False,
)
