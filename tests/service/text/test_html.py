"""HTML: only words change, however broken it is, and tags follow their words."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.html import split_html
from service.text.markup.tag_placement import place_marks
from service.text.markup.tokenizer import TokenKind, tokenize
from service.text.segment import Aligned, Mark, Segment
from service.text.splitter import Splitter, Splitting

_TAGS = (
    "<p> </p> <p class='x>y'> <b> </b> <i> </i> <a href=x> </a> <br/> <img src='a b'> <!--c--> <code>x=1</code> <pre> "
    '</pre> <div translate="no"> </div> <span class="notranslate">y</span> <script>if(a<b)</script> <!doctype_html> '
    "< > </ <b <a_href=' <!-- <td> <li>"
).replace("_", " ")
_TAG = st.sampled_from(re.split(r" (?=<|>)", _TAGS))
_TEXT = st.sampled_from(
    ["a ", "bc", " ", ". ", "word", " and ", "&amp;", "&nbsp;", "&lt;b&gt;", "&", "&x", "1", "\n", "{x}", "é"]
)
ANY_HTML = st.lists(_TAG | _TEXT | st.text(max_size=3), max_size=30).map("".join)
# White space only outside of elements: its place inside of them is a matter of taste.
_INLINE = st.recursive(
    st.sampled_from(
        ["cat", "black dog", "sat, and ran", "&amp;", "x &lt; y", "{x}", "<code>z</code>", "https://a.org"]
    ),
    lambda inside: st.tuples(st.sampled_from("biu"), st.lists(inside, min_size=1, max_size=3)).map(
        lambda element: f"<{element[0]}>{' '.join(element[1])}</{element[0]}>"
    ),
    max_leaves=5,
)
_SENTENCE = st.lists(_INLINE | st.sampled_from(["<!-- c -->", "<wbr>"]), min_size=1, max_size=4).map(" ".join)
_BLOCK = st.tuples(st.sampled_from(["p", "li", "td"]), st.lists(_SENTENCE, max_size=3).map(". ".join)).map(
    lambda block: f'<{block[0]} title="the {block[0]}">{block[1]}</{block[0]}>\n'
)
GOOD_HTML = st.lists(_BLOCK, max_size=4).map("".join)


def _splitter(characters: int = 1000) -> Splitter:
    return Splitter(lambda segment: len(segment.model_input().text) <= characters)


def _split(html: str, characters: int = 1000) -> list[Segment]:
    return list(split_html(html, "en", _splitter(characters)))


def _parts(segment: Segment) -> Iterator[Aligned]:
    """Translate each word into capitals."""
    read = segment.model_input()
    done = 0
    for (start, end), term in zip([*read.terms, (len(read.text),) * 2], [*segment.terms, None], strict=True):
        for chunk in re.finditer(r"\s*\w+|\s*[^\w\s]|\s+", read.text[done:start]):
            place = done + chunk.end() - len(chunk[0].lstrip())
            yield Aligned(segment.render(chunk[0].upper()), read.sentence_span(place, done + chunk.end())[0])
        if term is not None:
            yield Aligned(term.translation, term.start)
        done = end


def _translated(html: str, characters: int = 1000) -> str:
    written = []
    for segment in _split(html, characters):
        if not segment.translatable:
            written.append(segment.text)
            continue
        parts = list(_parts(segment))
        text = place_marks(segment.sentence, segment.marks, parts) if segment.marks else "".join(p.text for p in parts)
        written.append(segment.before + text + segment.after)
    return "".join(written)


@given(html=ANY_HTML)
def test_tokens_and_segments_lose_nothing(html: str) -> None:
    assert "".join(token.raw for token in tokenize(html)) == html
    for characters in (1000, 5):
        assert "".join(segment.text for segment in _split(html, characters)) == html


@given(html=GOOD_HTML, characters=st.sampled_from([1000, 20]))
def test_all_but_the_words_is_preserved(html: str, characters: int) -> None:
    translated = _translated(html, characters)
    assert translated.lower() == html
    words = re.sub(r"<code>.*?</code>|<[^>]*>|&\w+;|\{x\}|https://a.org", "", translated)
    assert words == words.upper()


@given(html=ANY_HTML)
def test_no_tag_is_lost_from_broken_html(html: str) -> None:
    def tags(text: str) -> list[str]:
        tokens = [token for token in tokenize(text) if token.kind is not TokenKind.TEXT]
        return sorted(token.raw for token in tokens if token.raw.startswith("<") and "\ufffc" not in token.raw)

    def letters(text: str) -> list[str]:
        return sorted(character for character in unescape(text).casefold() if not character.isspace())

    if "\ufffc" not in html:
        assert letters(_translated(html)) == letters(html)
        assert [tag for tag in tags(html) if tag.endswith(">")] == [
            tag for tag in tags(_translated(html)) if tag.endswith(">")
        ]


def _sentences(html: str) -> list[str]:
    return [segment.sentence for segment in _split(html) if segment.translatable]


@pytest.mark.parametrize(
    "kept",
    [
        "<pre>a\n b</pre>",
        "<code>a b</code>",
        "<script>var a = '<p>b</p>';</script>",
        "<style>a { b }</style>",
        '<p translate="no">a <p>b</p> c</p>',
        "<span class='x NoTranslate'>a <span>b</span></span>",
        "<!-- a b -->",
        "<![CDATA[a b]]>",
        "<svg><text>a</text></svg>",
        "https://a.org/?a=1&amp;b=2",
    ],
)
def test_a_copied_element_is_copied_whole(kept: str) -> None:
    html = f"<p>the cat {kept} sat"
    assert kept in _translated(html)
    assert _translated(html).replace(kept, "").split() == ["<p>THE", "CAT", "SAT"]


@pytest.mark.parametrize("content", ["if (the cat < 3) alert('a > b')", "The cat."])
def test_a_tag_counts_however_long_it_is(content: str) -> None:
    long = f'src="data:,{"x" * 100_000}"'
    for kept in (f"<script {long}>{content}</script>", f'<p {long} translate="no">The cat.</p>'):
        assert _sentences(f"<p>One {kept}<p>Two") == ["One", "Two"]


def test_attributes_of_blocks_and_pictures_are_translated() -> None:
    html = '<p title="A &quot;cat&quot;" class="b c"><a href="d"><img src="e" alt="The dog"></a> f</p>'
    assert _sentences(html) == ['A "cat"', "The dog", "f"]
    assert _translated(html) == (
        '<p title="A &quot;CAT&quot;" class="b c"><a href="d"><img src="e" alt="THE DOG"></a> F</p>'
    )


@pytest.mark.parametrize(
    ("html", "sentences"),
    [
        ('<label>Name</label> <input value="Ann" placeholder="Your name">', ["Name", "Your name"]),
        ('Name <input type="submit" value="Send" name="b">', ["Name", "Send"]),
        ('Wait <input name="days" value="three"> days', ["Wait  days"]),
        ('<textarea><b>Name</textarea><track label="Your <b>name">', ["Your <b>name"]),
        ('<textarea title="Note">One line\nA red &amp; line</textarea>', ["Note", "One line", "A red & line"]),
        ("<p>At 100<sup>oC</sup>, 5<sup>o</sup>C, H<sub>2</sub>O <!--m<sup>2</sup>-->", ["At \ufffc, \ufffc, \ufffc"]),
        ('Dial <a href="x">555-1234</a> or <b>5-6</b><sup>o</sup>C', ["Dial \ufffc or 5-6oC"]),
        ('<div title="footer"><p title="footer">1</p></div>', ["footer"]),
        ('<p title="A cat" alt="a dog" title="B">', ["A cat", "a dog", "B"]),
        ('See <span class="math inline"><em>a</em>b</span>.', ["See \ufffc."]),
        ('See <span class="math">algebra</span>.', ["See algebra."]),
        # Blocks separate sentences, and inline tags do not.
        (
            "<h1>A <em>title</em></h1><p>One <b>two</b>. Three<br>four</p><td>five</td>six",
            ["A title", "One two.", "Three", "four", "five", "six"],
        ),
        # A copied element that is not closed ends with its block.
        ("<p>one <code>two</p><p>three</p>", ["one \ufffc", "three"]),
        (
            '<div translate="no">No. <p translate="yes">A <code>x</code>.</p> <div>So</div></div> Go.',
            ["A \ufffc.", "Go."],
        ),
        # The mark of a footnote is no part of its first word.
        ("<p><sup>1</sup>She ran.</p>", ["She ran."]),
        ('<p><sup><a href="x">[1]</a></sup><span>She <b>ran</b>.</span></p>', ["She ran."]),
        ("<p><a>1</a>I ran.</p>", ["I ran."]),
        ("<p><sup>14</sup>C is old.</p>", ["14C is old."]),
        ("<p><b>3</b>Dogs ran.</p>", ["3Dogs ran."]),
        ("<p>She<sup>1</sup>Ran</p>", ["She1Ran"]),
    ],
)
def test_what_readers_see(html: str, sentences: list[str]) -> None:
    assert _sentences(html) == sentences
    assert "".join(segment.text for segment in _split(html)) == html


def test_entities_are_read_as_characters_and_written_as_entities() -> None:
    html = "<p>caf&eacute; &amp; &lt;b&gt; &#x41;&nbsp;b</p>"
    assert _sentences(html) == ["café & <b> A\xa0b"]
    assert _translated(html) == "<p>CAFÉ &amp; &lt;b&gt; A\xa0B</p>"


_LINK = Mark(6, 11, "<a>", "</a>")


@pytest.mark.parametrize(
    ("sentence", "marks", "parts", "expected"),
    [
        (
            "black cat",
            [Mark(0, 5, "<b>", "</b>")],
            [("chat", 6), (" no", 0), ("ir", 0), (".", 0)],
            "chat <b>noir</b>.",
        ),
        # Elements stay nested.
        (
            "the black cat sleeps",
            [Mark(4, 13, "<a>", "</a>", [Mark(4, 9, "<b>", "</b>")])],
            [("le", 0), (" chat", 10), (" noir", 4), (" dort", 14)],
            "le <a>chat <b>noir</b></a> dort",
        ),
        # Marks without words keep their places, and the space on both sides.
        (
            "the black cat",
            [Mark(4, 4, "<img>"), Mark(4, 4, "<b>", "</b>"), Mark(13, 13, "<hr>")],
            [("le", 0), (" chat", 10)],
            "le <img><b></b>chat<hr>",
        ),
        (
            "Enter  or  to go",
            [Mark(6, 6, "<x>", "</x>"), Mark(10, 10, "<y>", "</y>")],
            [("Entrez", 0), (" ou", 7), (" passez", 11)],
            "Entrez <x></x> ou <y></y> passez",
        ),
        (
            "Enter/or, to go",
            [Mark(6, 6, "<x>", "</x>")],
            [("Entrez", 0), ("/", 5), ("ou", 6)],
            "Entrez/<x></x>ou",
        ),
        # A footnote contains its number and no word.
        (
            "The price1 is high",
            [Mark(9, 10, "<sup>", "</sup>")],
            [("Le", 0), (" prix", 4), ("1", 9), (" est", 11), (" haut", 14)],
            "Le prix<sup>1</sup> est haut",
        ),
        # An element whose words were dropped contains the nearest. Which that is, a search through everything tells
        # (test_tag_placement). Not a full stop.
        ("Hello world!", [_LINK], [("Bonjour", 0), (" !", 11)], "<a>Bonjour</a> !"),
        # One word each, if there are enough.
        (
            "Hello world!",
            [Mark(0, 0, "<i>", "</i>"), _LINK, Mark(11, 12, "<u>", "</u>")],
            [("Bonjour", 0), (" !", 11)],
            "<i></i><a>Bonjour</a> <u>!</u>",
        ),
        # First within the element around it.
        (
            "the old cat sleeps",
            [Mark(0, 11, "<i>", "</i>", [Mark(4, 7, "<A href=x>", "</A>")])],
            [("chat", 8), (" dort", 12)],
            "<i><A href=x>chat</A></i> dort",
        ),
        # A word that is emphasised, too, and a part of one, but not a raised part.
        ("the old cat", [Mark(4, 7, "<b>", "</b>")], [("le", 0), (" chat", 8)], "le <b>chat</b>"),
        ("absolute", [Mark(1, 2, "<b>", "</b>")], [("absolu", 2)], "<b>absolu</b>"),
        (
            "the 20th cat",
            [Mark(6, 8, "<sup>", "</sup>")],
            [("le", 0), (" 20", 4), (" chat", 9)],
            "le 20 <sup></sup>chat",
        ),
        # A link takes a word of its neighbour if no other is left, but not the last one.
        (
            "bey Simple state, here",
            [Mark(0, 3, "<a>", "</a>"), Mark(4, 16, "<i>", "</i>"), Mark(18, 22, "<a>", "</a>")],
            [("État", 11), (" simple", 4), (" immuable", 4)],
            "<a>État</a> <i>simple</i> <a>immuable</a>",
        ),
        # So do two links beside each other: the farther one has the farther word.
        (
            "see red tea now ok",
            [
                Mark(0, 3, "<i>", "</i>"),
                Mark(4, 7, "<a>", "</a>"),
                Mark(8, 11, "<a>", "</a>"),
                Mark(12, 18, "<b>", "</b>"),
            ],
            [("voir", 0), (" bien", 12), (" ou", 16), (" non", 17)],
            "<i>voir</i> <a>bien</a> <a>ou</a> <b>non</b>",
        ),
        ("Hello world", [Mark(0, 5, "<i>", "</i>"), _LINK], [("Bonjour", 0)], "<i>Bonjour</i><a></a>"),
        ("Hello world", [_LINK], [], "<a></a>"),
        ("Hello world", [_LINK], [("…", None)], "<a></a>…"),
    ],
)
def test_tags_follow_their_words(
    sentence: str, marks: list[Mark], parts: list[tuple[str, int | None]], expected: str
) -> None:
    assert place_marks(sentence, marks, [Aligned(*part) for part in parts]) == expected


@pytest.mark.parametrize(
    ("html", "marks"),
    [
        ("<p>So <b>much fun 😍</b></p>", [Mark(3, 11, "<b>", "", [])]),
        ("<p>A <i>red <b>cat. A</b> dog</i></p>", [Mark(2, 10, "<i>", "", [Mark(6, 10, "<b>", "", [])])]),
        ("<p>A <b>cat</b> or <i>dog???</i></p>", [Mark(2, 5, "<b>", "</b>", []), Mark(9, 13, "<i>", "", [])]),
    ],
)
def test_an_element_that_ends_behind_the_sentence_holds_its_words(html: str, marks: list[Mark]) -> None:
    assert _split(html)[0].marks == marks
    assert _translated(html) == re.sub("[a-z](?=[^<>]*(?:<|$))", lambda letter: letter[0].upper(), html)


def test_sentences_without_spaces_get_a_separator_within_a_paragraph() -> None:
    html = "<p>你好。<b>今天</b>很好。</p><p>再见！<i>好。</i>好</p>"
    segments = list(split_html(html, "zh", Splitter(lambda segment: True, separator="|")))
    assert "".join(segment.text for segment in segments) == html
    assert [(segment.separator, segment.sentence) for segment in segments] == [
        ("", "你好。"),
        ("|", "今天很好。"),
        ("", "再见！"),
        ("|", "好。"),
        ("|", "好"),
    ]


def test_line_ends_are_spaces_unless_they_are_to_split() -> None:
    html = "<p>The <b>black\ncat</b>\nsat &amp; ran. <code>a\nb</code> ok</p>"
    found: dict[Splitting | None, list[str]] = {}
    for splitting in (None, "lines", "sentences"):
        segments = list(split_html(html, "en", Splitter(lambda segment: True, splitting=splitting)))
        assert "".join(segment.text for segment in segments) == html
        found[splitting] = [segment.sentence for segment in segments if segment.translatable]
    assert found[None] == found["sentences"] == ["The black cat sat & ran.", "\ufffc ok"]
    assert found["lines"] == ["The black", "cat", "sat & ran.", "\ufffc ok"]


def test_elements_may_be_ignored_by_name() -> None:
    [segment] = split_html("<p>The <x>green</x> chair</p>", "en", _splitter(), {"x"})
    assert [term.translation for term in segment.terms] == ["<x>green</x>"]
