"""Bots at the gate: pending, verified, lying, unwanted, rude, signed."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from protego import Protego

from driving import KEY, Application, Client, settings, traps_in
from fakedns import FakeDns, settle
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs.reader import LogReader
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.request.bot_signature import DIRECTORY, thumbprint
from hedgerow.web.gate import build_gate

GOOGLE = {"user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}
GPT = {"user-agent": "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"}
TRUE, FALSE = "192.0.2.10", "198.51.100.66"
ROBOTS = b"User-agent: *\nDisallow: /private\n"


@pytest.fixture
def dns():
    with FakeDns() as server:
        server.is_true(TRUE, "crawl-1.googlebot.com")
        yield server


def site(scope):
    if scope["path"] == "/robots.txt":
        return {"headers": [(b"content-type", b"text/plain")], "chunks": (ROBOTS,)}
    return None


@pytest.fixture
def client(dns):
    made = []

    def make(text: str = "", **more) -> Client:
        one = Client(Application(react=site), f'[bots]\nresolver = "{dns.server}"\n{text}', **more)
        made.append(one)
        return one

    yield make
    for one in made:
        one.site.lookups.close()


def visited(client: Client):
    return client.entries[-1].visit


def ask(client: Client, target: str = "/", **more):
    """A visit, and what it gave rise to."""
    client.clock.now += 1

    async def run():
        answer = await client.ask(target, **more)
        await asyncio.gather(*client.hedgerow._tasks)
        return answer

    answer = asyncio.run(run())
    assert settle(client.site.lookups)
    return answer


def test_a_true_bot_is_pending_and_then_gets_clean_pages(client):
    one = client()
    first = ask(one, peer=TRUE, headers=GOOGLE)
    assert (first.status, visited(one).proof, visited(one).bot) == (200, "pending", "")
    assert traps_in(first.body), "not trusted yet"
    assert {e.detector for e in one.entries[-1].decision.evidence} <= {"entry"}
    second = ask(one, peer=TRUE, headers=GOOGLE)
    assert (second.status, visited(one).proof, visited(one).bot) == (200, "verified", "Googlebot")
    assert not traps_in(second.body)
    for _ in range(300):
        assert ask(one, peer=TRUE, headers=GOOGLE).status == 200


def test_a_liar_is_not_refused_until_it_is_certain(client):
    one = client()
    assert ask(one, peer=FALSE, headers=GOOGLE).status == 200
    assert visited(one).proof == "pending"
    second = ask(one, peer=FALSE, headers=GOOGLE)
    assert (second.status, visited(one).proof) == (403, "false")
    assert second.header("hedgerow-decision").startswith(b"refuse; code=false-claim; ref=")
    assert ask(one, peer=FALSE).status == 200, "nobody else behind the address is blocked"


def test_while_no_name_server_answers_nobody_is_refused_for_a_claim(client, dns):
    dns.mood = "failing"
    one = client()
    for _ in range(5):
        one.clock.now += 100
        assert ask(one, peer=FALSE, headers=GOOGLE).status == 200
        assert visited(one).proof == "pending"


def test_a_verified_bot_stays_so_through_an_outage(client, dns):
    one = client()
    ask(one, peer=TRUE, headers=GOOGLE)
    ask(one, peer=FALSE, headers=GOOGLE)
    dns.mood = "failing"
    for _ in range(3):
        one.clock.now += 10 * 86_400
        assert ask(one, peer=TRUE, headers=GOOGLE).status == 200
        assert visited(one).bot == "Googlebot"
        assert ask(one, peer=FALSE, headers=GOOGLE).status == 403


def test_what_is_known_survives_a_reload(client):
    one = client()
    ask(one, peer=TRUE, headers=GOOGLE)
    one.site.reload(one.site.app.settings)
    ask(one, peer=TRUE, headers=GOOGLE)
    assert visited(one).bot == "Googlebot"


def test_policy_by_category(client):
    contained = client('search = "contain"')
    for proof in ("pending", "verified"):
        answer = ask(contained, peer=TRUE, headers=GOOGLE)
        assert (answer.status, visited(contained).proof, visited(contained).bot) == (200, proof, "")
        assert traps_in(answer.body)
    refused = client('ai_training = "refuse"')
    assert ask(refused, headers=GPT).status == 403
    assert refused.entries[-1].decision.code == "unwanted-bot"
    assert ask(refused).status == 200
    off = client("enabled = false")
    assert ask(off, peer=FALSE, headers=GOOGLE).status == 200
    assert visited(off).claim == ""


def test_robots_txt_says_what_the_policy_is(client):
    one = client('ai_training = "refuse"')
    answer = ask(one, "/robots.txt", headers=GPT)
    assert answer.status == 200, "who is not wanted may read so"
    rules = Protego.parse(answer.body.decode())
    for agent in ("GPTBot", "CCBot", "Google-Extended"):
        assert not rules.can_fetch("http://example.org/", agent)
    assert rules.can_fetch("http://example.org/", "Googlebot")
    assert not rules.can_fetch("http://example.org/private", "Googlebot")
    assert not rules.can_fetch("http://example.org/~x", "Googlebot")
    bare = client('ai_training = "refuse"\n[traps]\nenabled = false\n[marker]\nmode = "off"\nrules = []')
    rules = Protego.parse(ask(bare, "/robots.txt").body.decode())
    assert not rules.can_fetch("http://example.org/", "GPTBot")
    assert rules.can_fetch("http://example.org/~x", "Googlebot")


def test_a_rude_bot_loses_its_welcome(client):
    one = client()
    for _ in range(2):
        ask(one, peer=TRUE, headers=GOOGLE)
    assert any(scope["path"] == "/robots.txt" for scope in one.app.scopes), "read beside the requests"
    rude = ask(one, "/private/x", peer=TRUE, headers=GOOGLE)
    assert (rude.status, visited(one).bot, visited(one).anomalies[-1]) == (200, "", "robots")
    assert one.entries[-1].decision.code == "robots"
    ask(one, peer=TRUE, headers=GOOGLE)
    assert visited(one).bot == ""
    one.clock.now += 86_400
    ask(one, peer=TRUE, headers=GOOGLE)
    assert visited(one).bot == "Googlebot"


def test_a_site_whose_robots_txt_breaks_serves_on(dns):
    async def broken(scope, receive, send):
        if scope["path"] == "/robots.txt":
            raise RuntimeError("broken")
        await Application()(scope, receive, send)

    one = Client(broken, f'[bots]\nresolver = "{dns.server}"\n')
    assert ask(one, peer=TRUE, headers=GOOGLE).status == 200
    one.site.lookups.close()


def test_a_replayed_ledger_decides_the_same_about_bots(client, tmp_path):
    path = tmp_path / "ledger.sqlite"
    text = 'ai_training = "refuse"'
    ledger = SqliteLedger(path)
    one = client(text, ledger=ledger)
    decided = []
    decide = one.site.app.gate.decide

    async def decide_and_remember(visit, counted_as=None):
        decided.append(await decide(visit, counted_as))
        return decided[-1]

    one.site.app.gate.decide = decide_and_remember
    for peer, headers in ((TRUE, GOOGLE), (FALSE, GOOGLE), (TRUE, GPT), (FALSE, {}), (FALSE, {"user-agent": "curl/8"})):
        for target in ("/", "/private", "/a"):
            ask(one, target, peer=peer, headers=headers)
    ledger.close()
    gate = build_gate(settings(f"[bots]\n{text}"), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger())
    replayed = []
    for visit in LogReader([str(path)]):
        replayed.append(run_now(gate.decide(visit)))
        gate.settle(replayed[-1])
    assert replayed == decided
    assert {decision.code for decision in decided} >= {"false-claim", "unwanted-bot", "robots"}


# ---- Signed

SECRET = Ed25519PrivateKey.generate()
X = base64.urlsafe_b64encode(SECRET.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).rstrip(b"=").decode()


def signature(at: float, host: str, agent: str, nonce: str = "1") -> dict[str, str]:
    params = (
        f'("@authority" "signature-agent");created={at:.0f};expires={at + 100:.0f};keyid="{thumbprint(X)}";'
        f'nonce="{nonce}";tag="web-bot-auth"'
    )
    base = f'"@authority": {host}\n"signature-agent": "{agent}"\n"@signature-params": {params}'
    made = base64.b64encode(SECRET.sign(base.encode())).decode()
    return {"signature-agent": f'"{agent}"', "signature-input": f"sig={params}", "signature": f"sig=:{made}:"}


@pytest.fixture
def directory():
    """A host on loopback that publishes a key."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": X}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


SIGNER = """hosts = ["example.org"]
insecure_directories = {insecure}
[[bots.signers]]
name = "Example agent"
category = "ai-assistant"
host = "{host}"
"""


def test_a_signed_bot(client, directory):
    host, asked = directory
    one = client(SIGNER.format(host=host, insecure="true"))
    agent = f"http://{host}"

    def signed(nonce: str, **changed) -> dict[str, str]:
        return {**signature(one.clock.now + 1, "example.org", agent, nonce), **changed}

    assert ask(one, headers=signed("1")).status == 200
    assert (visited(one).claim, visited(one).proof) == ("Example agent", "pending")
    answer = ask(one, headers=signed("2"))
    assert (visited(one).bot, visited(one).proof) == ("Example agent", "verified")
    assert not traps_in(answer.body)
    assert asked == [DIRECTORY]

    good = signed("3")
    ask(one, headers=good)
    assert visited(one).bot == "Example agent"
    ask(one, headers=good)
    assert (visited(one).bot, visited(one).anomalies[-1]) == ("", "signature-replayed")
    ask(one, headers={**signature(one.clock.now, "other.example", agent, "4")})
    assert (visited(one).bot, visited(one).anomalies[-1]) == ("", "signature-forged")
    assert one.entries[-1].decision.code == "signature-forged"
    ask(one, headers={**signature(one.clock.now - 500, "example.org", agent, "5")})
    assert (visited(one).bot, visited(one).anomalies[-1]) == ("", "signature-expired")


def test_no_key_is_fetched_from_our_own_network(client, directory):
    host, asked = directory
    one = client(SIGNER.format(host=host, insecure="false"))
    for n in range(3):
        agent = f"https://{host}"
        ask(one, headers=signature(one.clock.now + 1, "example.org", agent, str(n)))
        assert visited(one).proof == "pending"
    assert asked == []


def test_a_key_of_the_settings(client):
    one = client(f'hosts = ["example.org"]\n[[bots.signers]]\nname = "Ours"\ncategory = "monitoring"\nkeys = ["{X}"]\n')
    ask(one, headers=signature(one.clock.now + 1, "example.org", "https://anything.example"))
    assert visited(one).bot == "Ours"


# ---- The fingerprint of a TLS handshake


def test_a_fingerprint_is_believed_from_a_trusted_proxy_only():
    text = '[identity]\ntrusted_proxies = ["10.0.0.0/8"]\ntls_header = "X-JA4"\n'
    one = Client(text=text)
    headers = {"x-ja4": "t13d1516h2_8daaf6152771_b186095e22b6", "x-forwarded-for": "192.0.2.1"}
    one.get(headers=headers, peer="10.0.0.1")
    assert visited(one).fingerprint == headers["x-ja4"]
    one.get(headers=headers, peer="192.0.2.1")
    assert visited(one).fingerprint == ""
    one.get(headers={**headers, "x-ja4": "x" * 5000}, peer="10.0.0.1")
    assert len(visited(one).fingerprint) == 100


def test_an_older_ledger_is_brought_up_to_date(tmp_path):
    path = tmp_path / "ledger.sqlite"
    one = Client(ledger=SqliteLedger(path))
    one.get()
    one.entries.close()
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("DROP INDEX visits_claims")
        for name in ("claim", "proof", "signs", "fingerprint"):
            connection.execute(f"ALTER TABLE visits DROP COLUMN {name}")
        connection.execute("PRAGMA user_version=1")
    connection.close()
    (old,) = LogReader([str(path)])
    assert (old.claim, old.proof, old.anomalies, old.fingerprint) == ("", "", (), "")
    two = Client(ledger=SqliteLedger(path))
    two.get(headers=GPT)
    two.entries.close()
    first, second = LogReader([str(path)])
    assert msgspec.structs.replace(first, anomalies=()) == old
    assert second.claim == "GPTBot"
    two.site.lookups.close()
