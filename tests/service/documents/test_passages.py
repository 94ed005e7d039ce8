"""Paragraphs as HTML with inline tags, and back."""

from html import unescape

import pytest

from service.documents.paragraph import Batch, Paragraph, advance, translating
from service.documents.passages import inline_paragraph, plain_items
from service.documents.report import Report
from service.documents.tagged import Close, Item, Object, Open, Run, Words
from service.documents.web_pages import Block

BOLD = Run("<b>", "</b>")


def _paragraph(*items: Item) -> Paragraph:
    (found,) = inline_paragraph([], items, str)
    assert isinstance(found, Paragraph)
    return found


def test_the_most_frequent_formatting_has_no_tag() -> None:
    found = _paragraph(Words("one long text ", BOLD), Words("thin"))
    assert found.markup == "one long text <g2>thin</g2>"
    assert found.write("un long texte <g2>fin</g2>") == "<b>un long texte </b>fin"


def test_an_object_does_not_end_a_formatting() -> None:
    assert _paragraph(Words("usual "), Words("a", BOLD), Object(["*"]), Words("b", BOLD), Words(" word")).markup == (
        "usual <g2>a<x3/>b</g2> word"
    )


def test_objects_at_the_edges_stay_outside() -> None:
    found = _paragraph(Object(["["]), Words("a"), Object(["]"]))
    assert found.markup == "a"
    assert found.write("b") == "[b]"


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ("un <g2>deux</g2> trois<x4/>", "un (deux) trois*"),
        ("un <x4/>deux", "un *deux"),
        ("un deux", "un deux*"),  # what a translation lost stands at its end
        ("un <g2>deux", "un (deux)*"),
        ("un <g2></g2>deux <x4/>", "un deux *"),  # an empty element would be two stray marks in Markdown
        ("un</g2> deux <x4/><x4/>", "un deux *"),
        ("<g9>un</g9> <x9/>deux<x4/>", "un deux*"),
    ],
)
def test_any_translation_gives_well_formed_text(translation: str, written: str) -> None:
    found = _paragraph(Words("one "), Open("("), Words("two"), Close(")"), Object(["*"]), Words("three"))
    assert found.markup == "one <g2>two</g2><x5/>three"
    assert found.write(translation.replace("x4", "x5")) == written


def test_elements_that_overlap_are_closed_and_opened_again() -> None:
    found = _paragraph(Open("("), Words("a"), Open("["), Words("b"), Close("]"), Close(")"), Words("c"))
    assert found.markup == "<g1>a<g3>b</g3></g1>c"
    assert found.write("<g1>A<g3>B</g1>C</g3>") == "(A[B])[C]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <b>c</b>", [Words("a "), Open("<b>"), Words("c"), Close("</b>")]),
        ("a <0>c <1/></0>", [Words("a "), Open("<0>"), Words("c <1/>"), Close("</0>")]),
        ("a\nb", [Words("a"), Object(["\n"], is_break=True), Words("b")]),
        (
            "<i>a<b>c</i></b>",
            [Object(["<i>"]), Words("a"), Object(["<b>"]), Words("c"), Object(["</i>"]), Object(["</b>"])],
        ),
        ("a < b", [Words("a < b")]),
    ],
)
def test_plain_text_may_have_tags(text: str, expected: list[Item]) -> None:
    assert plain_items(text) == expected


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ("bonjour<x2/>et au revoir", "bonjour * et au revoir"),
        ("bonjour <x2/>, au revoir", "bonjour *, au revoir"),
        ("<x2/>bonjour", "* bonjour"),
        ("\u4f60\u597d<x2/>\u4f60\u597d", "\u4f60\u597d*\u4f60\u597d"),  # no spaces between words
    ],
)
def test_spaces_stay_around_an_object(translation: str, written: str) -> None:
    found = _paragraph(Words("hello "), Object(["*"]), Words(" and bye"))
    assert found.write(translation) == written


def test_white_space_at_the_edges_stays() -> None:
    found = _paragraph(Words(" very "), Words("cold", BOLD), Words(" today\n"))
    assert found.accept("tr\u00e8s <g2> froid</g2>  aujourd'hui")
    assert found.render() == " tr\u00e8s <b>froid</b> aujourd'hui\n"


def test_damaged_structure_is_translated_again_without_tags() -> None:
    found = [Block([text], text, 3, str) for text in ("<b>a</b> b", "<b>c</b>")]
    rounds = translating(found)
    first = advance(rounds, None)
    assert first is not None
    second = advance(rounds, ["A B", "<b>C</b>"])
    assert second == Batch(["a b"], 0)
    assert advance(rounds, ["A B"]) is None
    assert [(one.render(), one.is_plain) for one in found] == [("A B", True), ("<b>C</b>", False)]


@pytest.mark.parametrize(
    ("text", "translation", "is_warning"),
    [
        ("%d &lt; %s", "%s > %d", True),
        ("%5.2lf %@", "%@ %5.2lf", True),
        ("%1$d %2$s", "%2$s %1$d", False),
        ("%d %%s %s", "%%s %d %s", False),
        ("%(a)d %(b)s", "%(b)s %(a)d", False),
    ],
)
def test_placeholders_in_another_order_are_a_warning(text: str, translation: str, is_warning: bool) -> None:
    entry = Paragraph([text], text, len(text), str, context="entry")
    entry.accept(translation)
    report = Report()
    report.add([entry])
    problem = "1 text with placeholders in another order, which can crash programs: "
    assert report.warnings == [problem + unescape(text)] * is_warning
