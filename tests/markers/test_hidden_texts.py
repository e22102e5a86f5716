"""Texts of hidden links: of the same page, unlike others of it, and not where scripts read them."""

from __future__ import annotations

import pytest

from hedgerow.markers.hidden_texts import add_link_texts, hidden_texts, link_text, may_have_text

TEXTS = [b"Plant hedges", b"Cut old trees", b"All of the birds", b"Contact"]


PLACES = [number / 6 for number in range(6)]


def test_texts_are_made_of_words_of_the_page_and_are_new():
    words = {word for text in TEXTS for word in text.split()}
    made = list(hidden_texts(b"/", TEXTS, PLACES))
    assert {word for text in made for word in text.split()} <= words
    assert sum(text not in TEXTS for text in made) >= 4
    assert made == list(hidden_texts(b"/", TEXTS, PLACES))
    assert made != list(hidden_texts(b"/other", TEXTS, PLACES))


def test_texts_are_those_of_links_just_before():
    texts = [b"a%d b%d" % (number, number) for number in range(100)]
    for place, text in zip(PLACES[1:], hidden_texts(b"/", texts, PLACES[1:]), strict=True):
        assert all(-1 <= int(place * 100) - int(word[1:]) < 5 for word in text.split())


def test_a_page_with_few_texts_has_what_there_is():
    assert list(hidden_texts(b"/", [], PLACES)) == []
    assert list(hidden_texts(b"/", [b"Home"], PLACES[:2])) == [b"Home", b"Home"]
    assert set(hidden_texts(b"/", [b"Home", b"News"], PLACES * 3)) == {b"Home", b"News"}


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (b'<a href="/a">Of\n  hedges</a>', b"Of hedges"),
        (b'<a href="/a" class=x>R&amp;D</a>', b"R&amp;D"),
        ("<a href='/a'>Büsche</a>".encode(), "Büsche".encode()),
        (b'<a href="/a">x</a>', b""),
        (b'<a href="/a">2 + 2</a>', b""),
        (b'<a href="/a">' + b"word " * 30 + b"</a>", b""),
        (b'<a href="/a"><img alt="x"></a>', b""),
        (b'<a href="/a" title="a > b" id="c">Home</a>', b""),
        (b'<a href="/a"', b""),
        (b'<a href="/a">Home', b""),
    ],
)
def test_the_text_of_a_link(link, text):
    assert link_text(link, link.index(b"/a") + 3) == text


def test_texts_of_a_long_page_are_few_and_from_all_over_it():
    page = b"".join(b'<a href="/%d">page %d</a> ' % (n, n) for n in range(1000))
    ends = [end + 2 for end in range(len(page)) if page.startswith(b'">', end)]
    ends = [at - 1 for at in ends]
    texts = add_link_texts((), page, ends)
    numbers = [int(text.split()[1]) for text in texts]
    assert 10 < len(texts) <= 16
    assert max(numbers) > 900
    for _ in range(20):
        page = page.replace(b"page", b"page1")
        texts = add_link_texts(texts, page, [at for at, byte in enumerate(page) if byte == ord('"')][1::2])
    assert len(texts) == 100


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"<p>See <a href=x>x</a>", True),
        (b"<ul><li><b><a href=x>x</a></b>", True),
        (b"<div><a href=x><h3>x</h3></a>", True),
        (b"<p>Use <code>x</code> and <a href=x>x</a>", True),
        (b"<h2>Of <a href=x>x</a>", False),
        (b"<H2 id=x><span><a href=x>x</a></span>", False),
        (b"<table><tr><td><a href=x>x</a>", False),
        (b"<table><tr><td><p><a href=x>x</a>", True),
        (b"<pre>1 < 2 <a href=x>x</a>", False),
        (b"<p><code><a href=x>x</a>", False),
        (b"<pre>" + b"<a>x</a>\n" * 9, False),
        (b"<label><a href=x>x</a>", False),
        (b"text", False),
    ],
)
def test_where_scripts_may_read_texts_there_are_none(before, expected):
    assert may_have_text(before) is expected
