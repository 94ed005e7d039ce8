"""XML: only words change, tags of the structure separate sentences, and ignored elements are copied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.segment import Segment
from service.text.splitter import Splitter, Splitting
from service.text.xml import XmlTags, find_xml_error, split_xml

_TAGS = ["<p>", "</p>", "<x id='1'>", "</x>", "<x/>", "<Link>", "</Link>", "<!-- c -->", "<![CDATA[a]]>", "<?pi?>", "<"]
_TEXTS = ["a ", "bc. ", "\n", " ", "&amp;", "&lt;", "script"]
ANY_XML = st.lists(st.sampled_from([*_TAGS, *_TEXTS]), max_size=30).map("".join)
DOCUMENT = """<document>
  <meta><title>A cat's title</title></meta>
  <content>
    <par>This is one. This <b>is <i>two</i></b>.</par>
    <par>This is
three.</par>
  </content>
</document>"""


def _split(xml: str, tags: XmlTags = XmlTags(), splitting: Splitting = "lines") -> list[Segment]:  # noqa: B008
    return list(split_xml(xml, "en", Splitter(lambda segment: True, splitting=splitting), tags))


def _sentences(xml: str, tags: XmlTags = XmlTags(), splitting: Splitting = "lines") -> list[str]:  # noqa: B008
    return [segment.sentence for segment in _split(xml, tags, splitting) if segment.translatable]


@given(xml=ANY_XML, tags=st.sampled_from([XmlTags(), XmlTags(frozenset("x")), XmlTags(splitting=frozenset("x"))]))
def test_segments_lose_nothing(xml: str, tags: XmlTags) -> None:
    for splitting in ("lines", "sentences", "none"):
        assert "".join(segment.text for segment in _split(xml, tags, splitting)) == xml


def test_the_outline_is_found() -> None:
    assert _sentences(DOCUMENT, splitting="sentences") == [
        "A cat's title",
        "This is one.",
        "This is two.",
        "This is three.",
    ]
    assert _sentences(DOCUMENT)[-2:] == ["This is", "three."]
    assert _sentences("Press <b>Continue</b> to go.") == ["Press Continue to go."]
    assert _sentences("<p>Press <b>Continue</b> to go.</p><p>One</p>") == ["Press Continue to go.", "One"]


def test_tags_that_split_and_tags_that_do_not() -> None:
    xml = "<t>One <br/>two <p>three</p> four</t>"
    assert _sentences(xml) == ["One two three four"]
    assert _sentences(xml, XmlTags(splitting=frozenset({"p"}))) == ["One two", "three", "four"]
    listed = "<li>One</li><li>two</li>"
    assert _sentences(listed) == ["One", "two"]
    assert _sentences(listed, XmlTags(non_splitting=frozenset({"li"}))) == ["Onetwo"]
    assert _sentences(listed, XmlTags(detects_outline=False)) == ["Onetwo"]
    outlined = XmlTags(splitting=frozenset({"par", "title"}), detects_outline=False)
    assert _sentences(DOCUMENT, outlined, "sentences") == _sentences(DOCUMENT, splitting="sentences")


def test_names_have_no_meaning_and_keep_their_case() -> None:
    xml = "The <Link>cat</Link> sat <link>on <P>a</P></link> <script>mat</script>."
    [only] = _split(xml)
    assert only.sentence == "The cat sat on a mat."
    assert [(mark.opening, mark.closing) for mark in only.marks] == [
        ("<Link>", "</Link>"),
        ("<link>", "</link>"),
        ("<script>", "</script>"),
    ]


def test_ignored_elements_are_copied() -> None:
    tags = XmlTags(frozenset({"x"}))
    [only] = _split('Please open <x>the <b>page</b></x> or <x id="20"></x> or <x/>.', tags)
    assert [term.translation for term in only.terms] == ["<x>the <b>page</b></x>", '<x id="20"></x>', "<x/>"]
    assert only.marks == []
    [only] = _split("<x>Page</x>", XmlTags(frozenset({"x"}), detects_outline=False))
    assert not only.translatable
    assert _sentences("<p>One</p><x>Page</x>", tags) == ["One"]


@pytest.mark.parametrize(("splitting", "sentences"), [("lines", 3), ("sentences", 2), ("none", 1)])
def test_splitting(splitting: Splitting, sentences: int) -> None:
    assert len(_sentences("One is. Two\nis three.", splitting=splitting)) == sentences
    plain = Splitter(lambda segment: True, splitting=splitting).split("One is. Two\nis three.", "en")
    assert len(list(plain)) == sentences


@pytest.mark.parametrize(
    ("xml", "error"),
    [
        ("a <b>c</b> <d/> &amp; <!-- e -->", ""),
        ("a < b", ""),
        ("a <b>c", "<b> has no partner"),
        ("a </b>c", "</b> has no partner"),
        ("a <b>c</B>", "<b> has no partner"),
        ("a <!-- c", "<!-- c has no end"),
    ],
)
def test_what_is_wrong_with_xml(xml: str, error: str) -> None:
    assert find_xml_error(xml) == error
