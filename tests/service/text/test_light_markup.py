"""Light markup: pairs of marks and links are found, stay around their words, and other stars are text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.light_markup import split_light_markup
from service.text.segment import Mark, Segment
from service.text.splitter import Splitter


def _split(text: str) -> list[Segment]:
    return list(split_light_markup(text, "en", Splitter(lambda segment: True)))


def _marks(text: str) -> list[tuple[str, str, str]]:
    """Return the opening mark, the words and the closing mark of all pairs within sentences."""

    def flat(segment: Segment, marks: object) -> list[tuple[str, str, str]]:
        assert isinstance(marks, list | tuple)
        found = []
        for mark in marks:
            assert isinstance(mark, Mark)
            found += [
                (mark.opening, segment.sentence[mark.start : mark.end], mark.closing),
                *flat(segment, mark.inside),
            ]
        return found

    return [each for segment in _split(text) for each in flat(segment, segment.marks)]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("**Note:** this is *important*", [("**", "Note:", "**"), ("*", "important", "*")]),
        ("A _black_ cat, ~~my~~ cat", [("_", "black", "_"), ("~~", "my", "~~")]),
        ("A __black big__ cat", [("__", "black big", "__")]),
        ("It ***is*** one", [("***", "is", "***")]),
        ("A **black *big* cat** sat", [("**", "black big cat", "**"), ("*", "big", "*")]),
        ("See [the docs](https://a.org/b?c=1) now", [("[", "the docs", "](https://a.org/b?c=1)")]),
        ("See ![a **big** cat](cat.png) now", [("![", "a big cat", "](cat.png)"), ("**", "big", "**")]),
        ("- a **black** cat\tthe _dog_ sat", [("**", "black", "**"), ("_", "dog", "_")]),
        ("At **https://a.org/x** now", [("**", "https://a.org/x", "**")]),
        ("At [FAQ](/faq) now", [("[", "FAQ", "](/faq)")]),
        ("<b>Hello</b> my <i>friend</i>", [("<b>", "Hello", "</b>"), ("<i>", "friend", "</i>")]),
        ("A <B>black *big*</b> cat", [("<B>", "black big", "</b>"), ("*", "big", "*")]),
        ('See <a href="https://a.org/_b_">the docs</a> now', [('<a href="https://a.org/_b_">', "the docs", "</a>")]),
        ("Read <0>the <1/> terms</0> now", [("<0>", "the <1/> terms", "</0>")]),
        ("A [b]black[/b] cat", [("[b]", "black", "[/b]")]),
        ("See [url=https://a.org]the docs[/url] now", [("[url=https://a.org]", "the docs", "[/url]")]),
        ("A {b}black{/b} cat", [("{b}", "black", "{/b}")]),
        ("See [url=https://a.org]here[/url] now", [("[url=https://a.org]", "here", "[/url]")]),
        ("See [img]https://a.org/b.png[/img] now", [("[img]", "https://a.org/b.png", "[/img]")]),
        (r"A \emph{black} cat", [(r"\emph{", "black", "}")]),
        ("See [[Main Page|the first page]] now", [("[[Main Page|", "the first page", "]]")]),
        ("Save &as", [("&", "", "")]),
        ("A §6golden §rcat", [("§6", "", ""), ("§r", "", "")]),
    ],
)
def test_pairs_are_marks(text: str, marks: list[tuple[str, str, str]]) -> None:
    assert _marks(text) == marks
    assert "".join(segment.text for segment in _split(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4 and 5*3*2",
        "f(*args, **kwargs)",
        "snake_case_name and __init__ of __NAME__",
        "See `a *b* c` now",
        "https://a.org/_a_/b and https://a.org/*b*",
        "one * two* three",
        "\\*not this\\*",
        "array[0](x y) and [a] (b)",
        "* item",
        "~about~ 5",
        "a < b and c > d, x<y>z",
        "AT&T &amp; &lt;b&gt;more&lt;/b&gt;",
        "See `a <b>b</b> c` now",
        "Write {<b>} or </b> now",
        "<b>One\nTwo</b>",
    ],
)
def test_other_stars_are_text(text: str) -> None:
    assert [(segment.marks, segment.raw) for segment in _split(text)] == [((), None)] * len(_split(text))


@pytest.mark.parametrize(("text", "before"), [("&File", "&"), ("_Open", "_"), ("&cOnly players", "&c")])
def test_an_accelerator_or_a_colour_stays_before_its_word(text: str, before: str) -> None:
    [only] = _split(text)
    assert (only.before, only.sentence) == (before, text.removeprefix(before))


@pytest.mark.parametrize("text", ["Q&A", "AT&T", "R & D", "&amp; so", "a &b and &c", "_a_b", "snake _case and _Other"])
def test_other_ampersands_and_underscores_are_text(text: str) -> None:
    assert [segment.before for segment in _split(text)] == [""]


def test_blocks_of_code_are_copied() -> None:
    code = "```js\nlet cat = 1;\n\n  ``\n```\n"
    segments = _split(f"Try this:\n{code}It works.\n")
    assert [segment.sentence for segment in segments] == ["Try this:", "It works."]
    assert segments[0].after == f"\n{code}"
    assert [segment.sentence for segment in _split("```\nno end")][-1] == "no end"


def test_the_branches_of_an_icu_message_are_translated() -> None:
    message = "{n, plural, =0 {No file} one {# file in {dir}} other {{m, select, a {Some} other {All}}}}"
    segments = _split(f" {message}\n")
    assert [segment.sentence for segment in segments] == ["No file", "# file in {dir}", "Some", "All"]
    assert "".join(segment.text for segment in segments) == f" {message}\n"
    [one] = _split(f"You have {message} now.")
    assert [one.sentence[term.start : term.end] for term in one.terms] == [message]


def test_marks_around_a_sentence_or_two_stay_at_its_edges() -> None:
    [only] = _split("**A black cat.**")
    assert (only.before, only.sentence, only.after, only.marks) == ("**", "A black cat.", "**", [])
    first, second = _split("_One. Two._")
    assert (first.before, first.sentence, second.sentence, second.after) == ("_", "One.", "Two.", "_")


def test_a_position_in_the_sentence_is_one_in_the_text() -> None:
    text = "The **black *big* cat** sat"
    [segment] = _split(text)
    for word in ("The", "black", "big", "cat", "sat"):
        start = segment.sentence.index(word)
        first, last = segment.source_span(start, start + len(word))
        assert text[first:last] == word


_PARTS = "* ** _ ~~ [ ]( ) a ` x.org <b> </b> [[ | ]] & §6 A } [b] [/b] \\".split()


@given(st.lists(st.sampled_from([*_PARTS, " b ", ". ", "\n", "\n```", "{a, plural, b {"])).map("".join))
def test_segments_lose_nothing(text: str) -> None:
    assert "".join(segment.text for segment in _split(text)) == text


@pytest.mark.parametrize(
    "part",
    "* **a _a [ [a]( *a* ~~ **a*b <b> <b>a</b> [a](<b>)</b> [[a| [b] {b} §6 &cA ```\n {a,plural, {a,plural,b{c "
    "{a,plural,b{c}} \\ \\a{ $a /a C:\\a :a %( $t( a.b/ A1- a_ mm: &a [a=b <0>".split(" "),
)
def test_a_long_line_ends_soon(part: str) -> None:
    """Quadratic time would be minutes."""
    text = part * (100_000 // len(part))
    assert sum(len(segment.text) for segment in _split(text)) == len(text)
