"""The ban-list endpoint accepts the token of a client only as a bearer token."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from .test_banlist import TOKEN, served


def status_with(url: str, authorization: str) -> int:
    request = urllib.request.Request(url, data=b"[]", headers={"authorization": authorization})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize(
    ("authorization", "is_accepted"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"Basic {TOKEN}", False),
        (f"Digest {TOKEN}", False),
        (TOKEN, False),
        (f" {TOKEN}", False),
    ],
)
def test_a_token_is_accepted_under_the_bearer_scheme_only(tmp_path, authorization, is_accepted):
    with served(tmp_path) as service:
        status = status_with(service.url + "/client/visits", authorization)
        assert (status < 300) if is_accepted else (status == 401)
