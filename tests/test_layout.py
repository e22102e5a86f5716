"""The layout of the code: every module has tests, and names are found by searching for them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "hedgerow"
TESTS = Path(__file__).parent
TESTED_BY = {
    "attacks/test_admin.py": ("web/admin/access",),
    "attacks/test_availability.py": ("proxy/connections",),
    "attacks/test_faults.py": ("corrupt_files",),
    "attacks/test_framing.py": ("web/cookie_test",),
    "attacks/test_settings.py": ("settings/dangers",),
    "cli/test_personal_data.py": ("cli/visitor_store",),
    "cli/test_running_service.py": ("cli/list_store",),
    "cli/test_service.py": ("web/run_file",),
    "web/test_alert_channels.py": ("cli/alerts",),
    "web/test_request_log.py": ("web/log_format",),
    "web/dashboard/test_login.py": ("web/admin/login_limit", "web/admin/passwords", "web/admin/sessions"),
    "web/dashboard/test_resources.py": (
        "web/dashboard/resource_types", "web/dashboard/resources/campaigns", "web/dashboard/resources/decision",
        "web/dashboard/resources/lists", "web/dashboard/resources/service", "web/dashboard/resources/state",
    ),
    "web/dashboard/test_visitor.py": (
        "web/dashboard/pages/complaint", "web/dashboard/pages/visitor", "web/dashboard/pages/visitors",
        "web/dashboard/path_tree", "web/dashboard/visitor_search",
    ),
    "web/dashboard/test_pages.py": (
        "web/dashboard/pages/bots", "web/dashboard/pages/campaigns", "web/dashboard/pages/models",
        "web/dashboard/pages/reports", "web/dashboard/pages/settings",
    ),
    "cli/test_models.py": ("web/model_changes",),
    "web/dashboard/test_app.py": (
        "web/dashboard/page", "web/dashboard/pages/audit",
        "web/dashboard/pages/lists", "web/dashboard/pages/now", "web/dashboard/tables",
    ),
    "web/admin/test_operation_metrics.py": ("web/latency",),
    "markers/test_token.py": ("markers/encoding",),
    "challenge/test_attacks.py": (
        "challenge/proof_of_work", "challenge/protocol", "challenge/sealed_box",
    ),
    "cli/test_cli.py": (
        "cli/main", "cli/maintenance", "cli/start", "errors",
    ),
    "cli/test_serve.py": (
        "cli/servers",
    ),
    "cli/test_report.py": ("cli/report_files",),
    "cli/test_visitors.py": (
        "web/ledger_access", "web/visitor_rows",
    ),
    "core/test_engine.py": (
        "core/visit",
    ),
    "core/test_gate.py": (
        "core/ledger", "core/state", "web/gate", "web/paths",
    ),
    "lab/crawl/test_crawl.py": (
        "cli/crawl", "lab/crawl/spider",
    ),
    "lab/crawl/test_parts.py": (
        "lab/crawl/own_hosts", "lab/crawl/schedule",
    ),
    "lab/simulate/test_suppression.py": (
        "cli/simulate", "lab/simulate/crawl", "lab/simulate/plot", "lab/svg",
    ),
    "lab/train/test_learners.py": (
        "watch/models/inference",
    ),
    "lab/train/test_log_samples.py": (
        "ledger/labels",
    ),
    "lab/train/test_shape_model.py": (
        "lab/train/cn2_rules",
    ),
    "lab/train/test_training.py": (
        "cli/train", "lab/train/fit", "lab/train/measures", "lab/train/samples",
        "lab/train/simulated_crawlers", "lab/train/simulated_data", "lab/train/simulated_people",
        "lab/train/training_report",
    ),
    "ledger/test_sqlite.py": (
        "ledger/erasure", "ledger/queue", "ledger/reader",
    ),
    "lists/test_follower.py": (
        "lists/sql_store", "lists/sqlite_store",
    ),
    "lists/test_importer.py": (
        "lists/times",
    ),
    "lists/test_lookup.py": (
        "lists/lookup_v6",
    ),
    "logs/test_formats.py": (
        "logs/fields", "logs/ledger_rows", "logs/patterns",
    ),
    "proxy/test_server.py": (
        "proxy/server_cycle", "proxy/server_protocol",
    ),
    "real/test_demo.py": (
        "lab/demo/crawlers", "lab/demo/person", "lab/demo/plain_crawler", "lab/demo/processes", "lab/demo/relay",
        "lab/demo/run", "lab/demo/scrapy_spider", "lab/demo/server", "lab/demo/site",
    ),
    "real/test_deploy.py": (
        "services/decision_service",
    ),
    "real/test_postgresql.py": (
        "ledger/postgresql", "ledger/postgresql_reader", "lists/postgresql_store",
    ),
    "real/test_redis.py": (
        "state/redis/scripts", "state/redis/shared_stores", "state/redis/state", "web/redis_stores",
    ),
    "real/test_several_gates.py": (
        "watch/redis_streams",
    ),
    "report/html/test_page.py": (
        "report/chart_data", "report/html/charts", "report/html/tables",
    ),
    "report/shape/test_vote.py": (
        "report/shape/classifiers",
    ),
    "report/tables/test_ingest.py": (
        "report/tables/line_scanner",
    ),
    "report/tables/test_local_store.py": (
        "report/tables/queries", "report/tables/source_tables",
    ),
    "report/test_label_rules.py": ("report/activity",),
    "report/test_replay.py": (
        "cli/replay",
    ),
    "report/test_report.py": (
        "report/blocklist", "report/heuristics", "report/pipeline", "report/result",
        "report/terminal",
    ),
    "request/test_header_facts.py": (
        "request/identify",
    ),
    "services/banlist/test_banlist.py": (
        "cli/client", "client", "services/banlist/change_feed", "services/banlist/client",
        "services/banlist/local_lists", "services/banlist/messages", "services/banlist/middleware",
        "services/banlist/server_link",
    ),
    "settings/test_tables.py": (
        "settings/checks", "settings/store_tables",
    ),
    "state/lmdb/test_state.py": (
        "state/lmdb/counters",
    ),
    "state/memory/test_state.py": (
        "state/hit_times", "state/store",
    ),
    "state/redis/test_connection.py": (
        "state/redis/address", "state/redis/loop_connection", "state/redis/thread_connection",
    ),
    "watch/test_watch.py": (
        "watch/session_store", "watch/sessions/lru", "web/watch",
    ),
    "web/admin/test_app.py": (
        "web/metrics",
    ),
    "web/challenge/test_endpoint.py": (
        "challenge/external", "challenge/interfaces", "web/challenge/pages", "web/challenge/siteverify",
    ),
    "web/lookups/test_thread.py": (
        "request/bot_cache",
    ),
    "web/test_app.py": (
        "web/stores",
    ),
    "web/test_asgi.py": (
        "asgi", "web/asgi_types",
    ),
    "web/test_http_client.py": (
        "web/http_client/connection", "web/http_client/pool",
    ),
    "web/test_sync_driver.py": (
        "web/waiter",
    ),
    "web/test_wsgi.py": (
        "wsgi",
    ),
}  # fmt: skip
"""
Modules without a test file of their own, by the file that tests them: they are parts of one thing, which is tested as a
whole, or need a real server.
"""
MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("").as_posix()
    for path in SOURCE.rglob("*.py")
    if path.name not in {"__init__.py", "__main__.py"}
)


def own_test(module: str) -> Path:
    path = Path(module)
    return TESTS / path.parent / f"test_{path.name}.py"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_a_test_file_or_is_named_with_the_one_that_tests_it(module):
    named = [name for name, modules in TESTED_BY.items() if module in modules]
    if own_test(module).exists():
        assert named == [], "it has a test file of its own: remove it from TESTED_BY"
    else:
        assert len(named) == 1, f"add {own_test(module)}, or name the module in TESTED_BY"
        assert (TESTS / named[0]).is_file()


def test_only_modules_that_exist_are_named():
    assert {module for modules in TESTED_BY.values() for module in modules} <= set(MODULES)


def test_no_public_class_name_is_used_three_times():
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 2] == []
