"""What a request is for is found from its target and method, by plain and compiled functions alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.report.tables.topics import (
    API,
    BROWSER,
    DOWNLOAD,
    FEED,
    LOGIN,
    NO_TOPIC,
    PROBE,
    SENT,
    topic_of_target,
    with_method,
)  # fmt: skip

TARGETS = [
    ("/", NO_TOPIC),
    ("/topic/1?page=2", NO_TOPIC),
    ("/environment", NO_TOPIC),
    ("/favicon.ico", BROWSER),
    ("/apple-touch-icon-120x120-precomposed.png", BROWSER),
    ("/.well-known/apple-app-site-association", BROWSER),
    ("/browserconfig.xml", BROWSER),
    ("/site.webmanifest", BROWSER),
    ("/blog/wp-login.php", LOGIN),
    ("/xmlrpc.php", LOGIN),
    ("/administrator/index.php", LOGIN),
    ("/blog/feed/", FEED),
    ("/?feed=rss2", FEED),
    ("/index.php?option=com_content&format=feed&type=rss", FEED),
    ("/?q=atom", NO_TOPIC),
    ("/?flav=html", NO_TOPIC),
    ("/.ENV", PROBE),
    ("/old/.git/config", PROBE),
    ("/page.php?file=../../x", PROBE),
    ("/?q=<script>", PROBE),
    ("http://example.net/", PROBE),
    ("/data/2020.LOG?x", DOWNLOAD),
    ("/files/a.zip", DOWNLOAD),
    ("/api/v1/items", API),
    ("*", NO_TOPIC),
    ("", NO_TOPIC),
]


@pytest.mark.parametrize(("target", "topic"), TARGETS)
def test_a_target_has_its_topic(target: str, topic: int) -> None:
    assert topic_of_target(target.encode(), 0, len(target)) == topic


pieces = st.sampled_from(
    ["/", ".", "..", "?", "<", "*", "a", "feed", "api", ".env", "favicon.ico", "login", ".zip", "A"]
)


@given(st.lists(pieces, max_size=8).map(lambda parts: "".join(parts).encode()))
def test_topics_are_the_same_when_compiled(target: bytes) -> None:
    data = np.frombuffer(target + b"?", np.uint8)
    assert topic_of_target.compiled(data, 0, len(target)) == topic_of_target(target, 0, len(target))


def test_only_what_is_sent_is_a_log_in() -> None:
    assert [with_method(topic, False) for topic in (LOGIN, PROBE, NO_TOPIC, FEED)] == [LOGIN, PROBE, SENT, SENT]
    assert [with_method(topic, True) for topic in (LOGIN, PROBE, NO_TOPIC, FEED)] == [PROBE, PROBE, NO_TOPIC, FEED]
