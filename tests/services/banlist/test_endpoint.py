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


@pytest.mark.parametrize(
    "body", [b'[[1e9,"192.0.2.1","GET","/\x82","http",[]]]', b'[[1,"","","","",[],0,"","",' + b"[" * 9000]
)
def test_a_batch_that_is_no_text_or_nested_too_deeply_is_refused(tmp_path, body):
    with served(tmp_path) as service:
        request = urllib.request.Request(
            service.url + "/client/visits", data=body, headers={"authorization": f"Bearer {TOKEN}"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        refused.value.close()
        assert refused.value.code == 400
