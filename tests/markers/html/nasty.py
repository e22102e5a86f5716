"""A grammar of nasty pages: everything in which a `</a>` may be something else than the end of a link."""

from __future__ import annotations

import random

from hypothesis import strategies as st

LINKS = [
    b'<a href="/x">x</a>', b"<a>", b"</a>", b"</A >", b"</a\n>", b"</a x='</a>'>", b"<A HREF=y>Y</A>", b"</a>\n</li>",
]  # fmt: skip
TEXTS = [
    b"text", b" ", b"\n", b"&amp;", b"a < b", b"1<2>3", b"<", b">", b'"', b"'", b"=", b"\0", b"\xff", b"-->", b"]]>",
]  # fmt: skip
TAGS = [
    b"<p>", b"</p>", b"<div>", b"</div>", b"<li>", b"<ul>", b"</ul>", b"<b>", b"</b>", b"<br/>", b"<img src=x>",
    b"<hr>", b"<P CLASS=x>", b"<span\n>", b"<x-y>", b"</x-y>", b"<svg-icon>", b"<input>", b"<button>", b"</button>",
    b"</>", b"</ x>", b"</3>", b"<3>", b"<object>", b"</object>",
]  # fmt: skip
ATTRIBUTES = [
    b'<p title="</a>">', b"<p title='</a>'>", b"<p title=</a>>", b'<p title="a>b">', b"<p ='</a>'>", b'<p ="</a>">',
    b"<p a=\"b\"c='</a>'>", b'<p x=="</a>">', b'<p x=y="</a>">', b"<p </a>", b'<p title="<script>">', b'<p "</a>">',
    b"<p title = '</script>'>", b'<p title="-->"/>', b"<p/title='</a>'/>", b'<img alt="<!--">',
    b"<p a='\"' b=\"'></a>\">", b'<p title="a>b" <script>', b"<p x=/>", b"<p x=a/b>", b'<p title="\0</a>">',
    b'<p title="a', b"<p title='", b"<p a=", b"<p a = ", b"<p", b"</p", b"<p a='x'\t/", b"</p title='</a>'>",
    b'<p"x="></a>">', b'<p x"y="></a>">', b'<p x=a=" y="></a>">', b'<p ="x y="></a>">', b"<p='x y='></a>'>",
]  # fmt: skip
COMMENTS = [
    b"<!-- c -->", b"<!-- </a> -->", b"<!-->", b"<!--->", b"<!---->", b"<!-- --!>", b"<!-- a--b -->", b"<!--", b"<!-",
    b"<!", b"<!-- <!-- -->", b"<!-- <!-->", b"<!--!>", b"<!---!>", b"<!-- --- -->", b"<!x </a>>", b"<?php </a> ?>",
    b"<?", b"<!doctype html>", b"<!DOCTYPE x '>'>", b"<!-- <script> -->", b"<!----!>", b"<!--- </a> --->",
]  # fmt: skip
RAW = [
    b"<script>", b"</script>", b"<SCRIPT>", b"</ScRiPt >", b"<script></a></script>", b"<script><!--</script>",
    b"<script><!-- <script></script> --></script>", b"<script><!--<script>", b"</script x='><a></a>'>", b"</scriptx>",
    b"<style>", b"</style>", b"<style></a></style>", b"<title>", b"</title>", b"<title></a></title>", b"<textarea>",
    b"</textarea>", b"<textarea></a><!--</textarea>", b"<xmp></a></xmp>", b"<iframe></a></iframe>",
    b"<noembed></noembed>", b"<noscript>", b"</noscript>", b"<noscript><a href=x>x</a></noscript>",
    b"</textarea title='</a>'>", b"</style/x>", b"<noframes></a></noframes>", b"</scr", b"</style", b"</textarea\n",
]  # fmt: skip
CLOSED = [
    b"<svg>", b"</svg>", b"<svg/>", b"<svg width='1' />", b"<svg><a href=x></a></svg>", b"<math>", b"</math>",
    b"<select>", b"</select>", b"<template>", b"</template>", b"<template><a></a></template>",
    b"<svg><title>x</title></svg>", b"<svg><style><![CDATA[ a>b ]]></style></svg>",
    b"<svg><![CDATA[ </svg><a></a> ]]></svg>", b"<![CDATA[x]]>", b"<![CDATA[ > </a> ]]>",
    b"<svg><style><!--</style></svg><a></a>--></style></svg>", b"<option>", b"<![CDATA[", b"<svg><desc></desc></svg>",
    b"<svg><script></a></script></svg>",
]  # fmt: skip
FRAME = [
    b"<html>", b"<head>", b"</head>", b"<body>", b"</body>", b"</html>", b"<body class='x'>", b"<meta charset=utf-8>",
    b"<link rel=x href=y>", b"<table>", b"<tr>", b"<td>", b"</td>", b"</tr>", b"</table>", b"<form>", b"</form>",
]  # fmt: skip
RARE = [
    b"<plaintext>", b"<meta http-equiv=content-security-policy content='x'>", b'<div id="__next">', b"<frameset>",
    b"<script src=/_next/x.js></script>",
]  # fmt: skip

FRAGMENTS = [*LINKS, *LINKS, *TEXTS, *TAGS, *ATTRIBUTES, *COMMENTS, *RAW, *CLOSED, *FRAME, *RARE]

pages = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(b"".join)


def random_page(dice: random.Random) -> bytes:
    """The same without Hypothesis, whose shrinking is not needed by the thousand."""
    return b"".join(dice.choice(FRAGMENTS) for _ in range(dice.randrange(1, 14)))
