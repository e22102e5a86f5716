"""Metrics about the operation of a gate, and the dashboard and alerts that are made from them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from driving import Client, traps_in
from hedgerow import __version__
from hedgerow.core.daily_limits import K1, K2
from hedgerow.core.decision import Decision, Evidence
from hedgerow.proxy.proxy import Proxy
from hedgerow.web import admin
from hedgerow.web.admin.app import Admin
from hedgerow.web.http_client.pool import Upstream
from hedgerow.web.metrics import SiteCounters, sum_metrics
from real.servers import find_program, free_port

PROMETHEUS = Path(__file__).parents[3] / "deploy" / "prometheus"
_EXPRESSION = re.compile(r"\bhedgerow_\w+")


def samples(client: Client) -> dict[tuple[str, ...], float]:
    """Each sample by its name and its labels in order."""
    text = generate_latest(Admin(client.site)._registry).decode()
    return {
        (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_decisions_are_counted_by_action_and_code():
    client = Client()
    client.get(traps_in(client.get("/").body)[0])
    client.get("/")
    found = samples(client)
    assert found["hedgerow_decisions_total", "action=pass", "code=", "observed=false"] == 1
    assert found["hedgerow_decisions_total", "action=refuse", "code=trap", "observed=false"] == 2
    assert found["hedgerow_observing",] == 0


def test_observed_decisions_have_passed_and_say_what_would_have_been_done():
    client = Client(text='observe = "links"\n')
    client.get(traps_in(client.get("/").body)[0])
    found = samples(client)
    assert found["hedgerow_decisions_total", "action=pass", "code=", "observed=false"] == 2
    assert found["hedgerow_decisions_total", "action=refuse", "code=trap", "observed=true"] == 1
    assert found["hedgerow_observing",] == 1


def test_codes_are_bounded():
    counters = SiteCounters()
    for n in range(1000):
        counters.count_stopped(Decision("refuse", (Evidence("own", f"code-{n}", 1.0, ""),)))
    assert len(counters.stopped) <= 301
    assert counters.stopped["false refuse other"] == 700


def test_durations_are_measured_for_each_stage():
    client = Client()
    for _ in range(3):
        client.get("/")
    found = samples(client)
    for stage in ("gate", "upstream", "rewrite"):
        assert found["hedgerow_duration_seconds_count", f"stage={stage}"] == 3
        assert found["hedgerow_duration_seconds_bucket", "le=+Inf", f"stage={stage}"] == 3
        assert 0 < found["hedgerow_duration_seconds_sum", f"stage={stage}"] < 3
        buckets = [
            value for key, value in found.items()
            if key[0] == "hedgerow_duration_seconds_bucket" and key[-1] == f"stage={stage}"
        ]  # fmt: skip
        assert buckets == sorted(buckets)


def test_a_duration_is_that_of_its_stage():
    def slow(_scope):
        time.sleep(0.3)

    client = Client()
    client.app.react = slow
    client.get("/")
    found = samples(client)
    assert found["hedgerow_duration_seconds_sum", "stage=upstream"] >= 0.3
    assert found["hedgerow_duration_seconds_sum", "stage=gate"] < 0.3
    assert found["hedgerow_duration_seconds_bucket", "le=0.25", "stage=upstream"] == 0


def test_failures_of_the_site_and_the_version_are_there():
    client = Client(Proxy(Upstream(f"http://127.0.0.1:{free_port()}")))
    client.get("/")
    found = samples(client)
    assert found["hedgerow_upstream_errors_total", "kind=connect"] == 1
    (build,) = [key for key in found if key[0] == "hedgerow_build_info"]
    assert f"version={__version__}" in build
    assert found["hedgerow_failing", "part=ledger"] == 0
    assert found["hedgerow_budget_pages", "clearance=no"] == K1
    assert found["hedgerow_budget_pages", "clearance=yes"] == K2
    assert found["hedgerow_queue_length", "queue=ledger"] == 0
    assert found["hedgerow_store_errors_total", "store=state"] == 0


def test_the_metrics_of_processes_are_added_and_queues_of_ended_ones_are_not():
    client = Client()
    client.get("/")
    own = client.site.own_metrics()
    waiting = msgspec.structs.replace(own, queues={"ledger": 5})
    ended = subprocess.Popen(["true"])
    ended.wait()
    total = sum_metrics(waiting, {ended.pid: msgspec.msgpack.encode(waiting)})
    assert total.queues == {"ledger": 5}
    assert total.latency["gate sum"] == pytest.approx(2 * own.latency["gate sum"])


# ---- Dashboard and alerts


def expressions() -> list[str]:
    rules = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())
    dashboard = json.loads((PROMETHEUS / "dashboard.json").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return found + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_and_the_alerts_use_metrics_and_labels_that_exist():
    client = Client()
    client.get(traps_in(client.get("/").body)[0])
    text = generate_latest(Admin(client.site)._registry).decode()
    families = list(text_string_to_metric_families(text))
    names = {sample.name for family in families for sample in family.samples}
    # Families without a sample yet.
    names |= {f"{family.name}_total" for family in families if family.type == "counter"}
    names |= {family.name for family in families}
    # The watch is counted where it runs: not in a site with a state of its own, as here.
    names |= {"hedgerow_watch_left_out_total"}
    used = {name for expression in expressions() for name in _EXPRESSION.findall(expression)}
    assert used
    assert used <= names, used - names


def test_every_metric_is_documented():
    source = "".join(path.read_text() for path in Path(admin.__file__).parent.glob("*.py"))
    names = set(re.findall(r'"(hedgerow_\w+)"', source))
    assert len(names) > 30
    documented = set(_EXPRESSION.findall((PROMETHEUS.parents[1] / "docs" / "deploy.md").read_text()))
    assert {name for name in names if not {name, f"{name}_total"} & documented} == set()


def test_panels_do_not_overlap():
    dashboard = json.loads((PROMETHEUS / "dashboard.json").read_text())
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_promtool_accepts_the_configuration_the_rules_and_the_queries(tmp_path):
    promtool = find_program("promtool")
    if promtool is None:
        pytest.skip("needs promtool, from the Debian package prometheus")

    def check(*words: str, **options) -> None:
        done = subprocess.run([promtool, *words], capture_output=True, text=True, timeout=60, check=False, **options)
        assert done.returncode == 0, done.stdout + done.stderr

    check("check", "config", str(PROMETHEUS / "prometheus.yml"))
    check("check", "rules", str(PROMETHEUS / "alerts.yml"))
    # The queries of the dashboard as rules, with the variables of Grafana filled in.
    rules = [
        {"record": f"panel:{n}", "expr": one.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for n, one in enumerate(expressions())
    ]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    check("check", "rules", str(tmp_path / "panels.yml"))
    client = Client()
    client.get("/")
    text = generate_latest(Admin(client.site)._registry).decode()
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert "error while linting" not in done.stderr, done.stderr


def expected(name: str, summary: str, **labels: str) -> dict:
    """An alert as promtool expects it."""
    rules = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"][0]["rules"]
    rule = next(rule for rule in rules if rule["alert"] == name)
    annotations = {**rule["annotations"], "summary": summary}
    return {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": annotations}


def test_alerts_fire_when_they_should(tmp_path):
    promtool = find_program("promtool")
    if promtool is None:
        pytest.skip("needs promtool, from the Debian package prometheus")
    down = expected("HedgerowDown", "gate does not answer", job="hedgerow", instance="gate")
    fails = expected(
        "HedgerowSiteFails", "The site behind gate fails (connect)", instance="gate", kind="connect"
    )  # fmt: skip
    series = {
        'up{job="hedgerow", instance="gate"}': "1 1 0 0 0 0",
        'hedgerow_upstream_errors_total{instance="gate", kind="connect"}': "0+60x20",
        'hedgerow_failing{instance="gate", part="ledger"}': "0x20",
    }
    cases = [
        ("1m", "HedgerowDown", []), ("5m", "HedgerowDown", [down]), ("9m", "HedgerowPartFails", []),
        ("10m", "HedgerowSiteFails", [fails]),
    ]  # fmt: skip
    tests = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": alerts} for at, name, alerts in cases],
    }
    rules = {"rule_files": [str(PROMETHEUS / "alerts.yml")], "evaluation_interval": "1m", "tests": [tests]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(rules))
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
