"""Thresholds and weights are learned from labelled logs, and are good on one that was not seen."""

from __future__ import annotations

import pytest

from hedgerow.errors import ModelError
from hedgerow.lab.train.report_weights import train_report_model, training_log
from hedgerow.report.heuristics import encode_model, load_model
from hedgerow.report.tables.source_tables import Tables
from hedgerow.request.bots import Bots, known_bots
from hedgerow.watch.models.bundle import load_window, shipped
from report.logs import line, site_log


def lessons(tmp_path, *, labels=None, seeds=(1, 2)):
    found = []
    for seed in seeds:
        path = tmp_path / f"{seed}.log"
        path.write_text(site_log(seed, agent="curl/8" if labels is None else "Mozilla/5.0"))
        with Tables([str(path)], memory=400_000_000) as tables:
            found.append(
                training_log(path.name, tables, Bots(known=known_bots()), shipped("boosted"), load_window(), labels)
            )
    return found


def test_a_held_out_log_is_classified_well(tmp_path):
    model = train_report_model(lessons(tmp_path))
    told = model.provenance["left_out"]["2.log"]
    assert told["crawlers_right"] == told["people_right"] == told["area"] == 1.0
    (tmp_path / "model.json").write_bytes(encode_model(model))
    assert load_model(tmp_path / "model.json") == model


def test_given_labels_replace_those_of_the_log(tmp_path):
    labels = {f"198.51.100.{n}": "suspect" for n in range(10)} | {f"192.0.2.{n}": "person" for n in range(20)}
    (one,) = lessons(tmp_path, labels=labels, seeds=(1,))
    assert (one.crawlers.sum(), (~one.crawlers).sum()) == (10, 20)


def test_a_person_looks_like_a_browser_in_most_sessions(tmp_path):
    """A scanner that brings a few images along once, among much else, is no person for it."""
    page, home = "http://e.org/a", "http://e.org/"
    sitting = [("/a", home), ("/i/1.png", page), ("/i/2.png", page), ("/b", ""), ("/c", ""), ("/d", ""), ("/e", "")]
    bare = [(f"/{n}", "") for n in range(6)]
    person, scanner = [sitting, bare], [sitting, bare, bare]
    lines = [
        line(address, 1_700_000_000 + 3600 * number + k, target, referrer=referrer or "-")
        for address, sittings in (("192.0.2.1", person), ("192.0.2.2", scanner))
        for number, one in enumerate(sittings)
        for k, (target, referrer) in enumerate(one)
    ]
    (tmp_path / "a.log").write_text("".join(lines))
    with Tables([str(tmp_path / "a.log")], memory=400_000_000) as tables:
        assert tables.figures["human_like"].tolist() == [7, 7]
        one = training_log("a.log", tables, Bots(known=known_bots()), shipped("boosted"), load_window())
        assert [tables.sources[k] for k in one.chosen] == ["192.0.2.1"]
        assert not one.crawlers.any()


def test_too_few_labelled_sources_are_an_error(tmp_path):
    with pytest.raises(ModelError, match="fewer than 5"):
        train_report_model(lessons(tmp_path, labels={"192.0.2.1": "person"}, seeds=(1,)))
    (tmp_path / "bad.json").write_text('{"format": "x"}')
    with pytest.raises(ModelError, match="is no model of a report"):
        load_model(tmp_path / "bad.json")
