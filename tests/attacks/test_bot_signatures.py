"""Bot signatures: whoever was sent a signature sends it on to get the pages that the bot may have."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from driving import Application, Client
from hedgerow.request.bot_signature import Keys, Signatures, thumbprint
from hedgerow.state.used_challenges import SqliteUsedChallenges

from .browsers import FAST

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
X = base64.urlsafe_b64encode(KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).rstrip(b"=").decode()
OWN = 'hosts = ["example.org", "www.example.org"]\n[[bots.signers]]\nname = "Ours"\ncategory = "search"\n'
OWN += f'keys = ["{X}"]\n'
MINUTE = 60.0


def signed(at: float, host: str = "example.org", *, nonce: str = "n1", seconds: float = 60.0) -> dict[str, str]:
    params = (
        f'("@authority" "signature-agent");created={at:.0f};expires={at + seconds:.0f};keyid="{thumbprint(X)}"'
        + (f';nonce="{nonce}"' if nonce else "")
        + ';tag="web-bot-auth"'
    )
    agent = '"https://agent.example"'
    base = f'"@authority": {host}\n"signature-agent": {agent}\n"@signature-params": {params}'
    made = base64.b64encode(KEY.sign(base.encode())).decode()
    return {"signature-agent": agent, "signature-input": f"s={params}", "signature": f"s=:{made}:", "accept": "*/*"}


def site(settings: str = OWN) -> Client:
    return Client(Application(), f"{FAST}[bots]\ndns = false\n{settings}")


def bot_of(client: Client, headers: dict[str, str], host: str = "example.org", peer: str = "192.0.2.1") -> str:
    client.get(headers=[(b"host", host.encode()), *((k.encode(), v.encode()) for k, v in headers.items())], peer=peer)
    return client.entries[-1].visit.bot


def test_a_signature_for_this_site_counts():
    """The other side: what a bot signed for this site, now, with a nonce."""
    client = site()
    assert bot_of(client, signed(client.clock.now)) == "Ours"
    assert bot_of(client, signed(client.clock.now, "www.example.org", nonce="n2"), "www.example.org") == "Ours"


@pytest.mark.parametrize("host", ["evil.example", "example.org.evil.example", "example.org:8080", "xexample.org", ""])
def test_a_signature_that_was_made_for_another_site(host):
    """Our own: the bot visits evil.example, which sends the request on with the `Host` that was signed."""
    client = site()
    headers = [(b"host", host.encode()), *((k.encode(), v.encode()) for k, v in signed(client.clock.now, host).items())]
    # The last one counts, as on a server that accepts two.
    answer = client.get(headers=headers)
    assert client.entries[-1].visit.bot == ""
    assert answer.status == 421
    assert client.site.app.gate.blocked == 0


def test_a_signature_where_the_site_does_not_say_which_hosts_are_its_own():
    """Our own: without a list of hosts, any host was one of the site's."""
    client = site(OWN.partition("\n")[2])
    assert bot_of(client, signed(client.clock.now)) == ""


def test_a_signature_that_is_sent_twice():
    """Our own, and RFC 9421 section 7.2.2: from another address as well."""
    client = site()
    headers = signed(client.clock.now)
    assert bot_of(client, headers) == "Ours"
    assert bot_of(client, headers) == ""
    assert bot_of(client, headers, peer="198.51.100.7") == ""


def test_a_signature_that_is_sent_to_another_process(tmp_path):
    """CrowdSec DESIGN section 2.1 accepts one use per instance. Here the nonce is used up for all of them."""
    stores = [SqliteUsedChallenges(tmp_path / "spent.sqlite") for _ in range(2)]
    keys = [Keys(), Keys()]
    for one, store in zip(keys, stores, strict=True):
        one.mark_used = store.mark_used
    assert keys[0].use_nonce("k", "n", 400.0, 100.0)
    assert not keys[1].use_nonce("k", "n", 400.0, 100.0)
    assert keys[1].use_nonce("k", "other", 400.0, 100.0)
    assert keys[1].use_nonce("other", "n", 400.0, 100.0)
    for store in stores:
        store.close()


def test_the_processes_of_a_site_share_their_nonces():
    """Our own: a site hands the store of used challenges to the check of signatures."""
    client = site()
    assert client.site.bot_cache.keys.mark_used == client.site.stores.used_challenges.mark_used


def test_a_signature_without_a_nonce():
    """Our own: it was replayed from other addresses for as long as it was valid, up to a day."""
    client = site()
    assert bot_of(client, signed(client.clock.now, nonce="")) == ""


@pytest.mark.parametrize(("minutes", "bot"), [(0, "Ours"), (5, "Ours"), (6.1, ""), (30, ""), (-0.9, "Ours"), (-2, "")])
def test_an_old_signature_that_says_it_is_valid_for_a_day(minutes, bot):
    """Our own: it counts for five minutes, with a minute for clocks, whatever it says."""
    client = site()
    made = client.clock.now
    client.clock.now += minutes * MINUTE
    assert bot_of(client, signed(made, seconds=86_400.0)) == bot


@pytest.mark.parametrize("name", ["signature", "signature-input", "signature-agent"])
def test_a_signature_that_was_changed(name):
    """Our own: any change of what was signed makes it worthless, and uses up no nonce."""
    client = site()
    headers = signed(client.clock.now)
    assert bot_of(client, {**headers, name: headers[name].replace("a", "b", 1)}) == ""
    assert bot_of(client, headers) == "Ours"


@pytest.mark.parametrize(
    "agent", ["http://127.0.0.1", "https://127.0.0.1", "https://[::1]", "https://10.0.0.1", "file:///etc/passwd"]
)
def test_the_directory_of_keys_is_in_our_own_network(agent):
    """Our own (SSRF): `Signature-Agent` names where keys are fetched. See also `tests/web/lookups/test_fetch.py`."""
    asked: list[str] = []
    keys = Keys(lambda signer, _: asked.append(signer))
    client = site()
    headers = {**signed(client.clock.now), "signature-agent": f'"{agent}"'}
    checker = Signatures(keys, {}, ("example.org",))
    client.site.app.gate.identifier.bot_verifier._signatures = checker
    assert bot_of(client, headers) == ""
    assert asked == []
