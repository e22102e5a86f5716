"""Documentation from declarations: pages in docs/ are up to date, and operators can ask about each code."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.detectors.documentation import current_pages, describe_all, describe_code, write_pages
from hedgerow.detectors.registry import registry

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["detectors.md", "settings.md"])
def test_the_pages_are_as_the_declarations_say(name):
    assert (DOCS / name).read_text("utf-8") == current_pages(registry(), DOCS)[name], (
        "run `python -m hedgerow.detectors docs`"
    )


def test_a_stale_block_is_replaced_and_a_missing_one_appended(tmp_path):
    text = "# Detectors\n\nBy hand.\n\n<!-- generated: trap -->\nstale\n<!-- end -->\n\nMore by hand.\n"
    (tmp_path / "detectors.md").write_text(text)
    (tmp_path / "settings.md").write_text("# Settings\n")
    write_pages(registry(), tmp_path)
    page = (tmp_path / "detectors.md").read_text()
    assert page.startswith("# Detectors\n\nBy hand.\n\n<!-- generated: trap -->\n| group | code | weight | when |")
    assert "stale" not in page
    assert "More by hand.\n" in page
    assert page.count("<!-- generated: density -->") == page.count("\n## density\n") == 1
    assert "\n### traps\n" in (tmp_path / "settings.md").read_text()
    before = page
    write_pages(registry(), tmp_path)
    assert (tmp_path / "detectors.md").read_text() == before


def test_each_code_is_explained_and_others_are_not():
    for spec in registry().specs:
        for code in spec.codes:
            lines = list(describe_code(registry(), code.code))
            assert lines[0] == f"code        {code.code}, weight {code.weight:g}"
            assert any(line.startswith(f"detector    {spec.name}: ") for line in lines)
    assert list(describe_code(registry(), "no-such-code")) == []


def test_what_is_said_about_a_trap():
    assert list(describe_code(registry(), "trap")) == [
        "code        trap, weight 1",
        f"detector    trap: {registry().specs[0].summary}",
        "when        The link was given to this very visitor.",
        "sentence    Followed a link of {where} that no person can see.",
        "follows     refuse, block for 3600 seconds (by default)",
        "enabled by  `traps.enabled`",
        "runs        live and in `hedgerow replay`; asked about visits to hidden links",
    ]


def test_the_reference_has_every_detector_and_code():
    text = describe_all(registry())
    for spec in registry().specs:
        assert f"## {spec.name}\n" in text
        assert all(f"| `{code.code}` |" in text for code in spec.codes)
