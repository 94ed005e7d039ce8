"""Pages: what is translated, and that a translation cannot damage their structure."""

import random
from xml.parsers import expat

import pytest

from service.documents.web_pages import Block
from service.errors import InvalidRequest
from tests.service.documents.conftest import Noting, Rewrite, same, shout, sides

HEAD = (
    '<html lang="en" xml:lang="en"><head><meta name="description" content="a &quot;shop&quot;">'
    '<meta name="x" content="y">'
    '<meta property="og:title" content="chairs"></head><body>{}</body></html>'
)


def test_the_head_of_a_page(rewrite: Rewrite) -> None:
    expected = HEAD.replace('"en"', '"fr"').replace("chairs", "CHAIRS").replace("shop", "SHOP").replace('"a ', '"A ')
    assert rewrite("a.html", HEAD) == expected.encode()


def test_a_drop_cap_belongs_to_its_word(rewrite: Rewrite) -> None:
    page = '<p><span class="drop">T</span>he old <b>man</b></p>'
    assert rewrite("a.html", page, lambda _: "Le vieil <b>homme</b>") == (
        b'<p><span class="drop">L</span>e vieil <b>homme</b></p>'
    )
    assert rewrite("a.html", page, same).decode() == page


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>«the» <ruby>«a»<rp>(</rp><rt>no</rt><rp>)</rp></ruby> «b»", ""),
        ("<p><ruby>«a»<rt>no<rt>no</ruby> «b» <rt>no</rt>", ""),
        ("<p>hy\u00adphen and hy&shy;phen", "<p>HYPHEN AND HYPHEN"),
        ("<p>hy\u00adphen <b>a</b>", "<p>HYPHEN <b>A</b>"),
        ("<p>«a H»<sub>2</sub>SO<sub>4</sub> «be»<sup>1</sup>", ""),
        ("<p>«at» 100<sup>0</sup>C. «No»<sup>1</sup>", ""),
        ("<div translate=no>no<p translate=yes>«a»</p>no</div>", ""),
        ("<p translate=no>no <b translate=yes>«a»</b> no</p> «b»", ""),
        ('<p>«see» <a href="a" title="«a» &amp; «b»">«this»</a> <img src="b" alt="«a cat»"> «now»</p>', ""),
    ],
)
def test_parts_of_a_page(page: str, expected: str, rewrite: Rewrite) -> None:
    source, loud = sides(page, expected)
    assert rewrite("a.html", source, same).decode() == source
    assert rewrite("a.html", source).decode() == loud


def test_a_drawing_with_styles_is_a_part_of_its_block(rewrite: Rewrite) -> None:
    block = "a <svg><title>b</title><style>c</style><text>d</text></svg> e"
    assert rewrite("a.html", f"<p>{block}</p>", lambda html: f"[{html}]").decode() == f"<p>[{block}]</p>"


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        (
            "a <i>b. C</i> d <em><b>e</b> f</em>",
            "A <i>B. C</i> D <em><b>E</em> F</b>",
            "A <i>B. C</i> D <em><b>E</b></em><b> F</b>",
        ),
        ('<b id="x">a <i>b</i></b> c', '<i><b id="x">A</i> B</b> C', '<i><b id="x">A</b></i><b> B</b> C'),
        ('<a href="1">a</a> <a href="2">b</a>', '<a href="1"><a href="2">A</a> B</a>', None),
        ("a <b>c</b>", "A C", None),
        ("a<br>c", "A<br>C<br>", None),
        ("a</b> c<i>", "A C</b><i>", "A C</b><i>"),
        ("a</b> c", "A C", None),
    ],
)
def test_structure(source: str, translation: str, expected: str | None) -> None:
    assert Block([source], source, 0, str).fit(translation) == expected


def test_plain_blocks_keep_what_is_not_around_words() -> None:
    block = 'a</b> <i>c<br>d</i> 5<sup>o</sup>C <img src="x"><u>'
    assert Block([block], block, 0, str).plain() == 'a</b> c<br>d 5<sup>o</sup>C <img src="x"><u>'


def test_no_translation_makes_a_page_that_is_not_well_formed(rewrite: Rewrite) -> None:
    """Tags of a translation are shuffled: the page is still XML, and no element that stands alone is lost."""
    chance = random.Random(1)
    block = '<p>one <i>two <b>three</b></i> four<br/> <a href="1">five</a> <a href="2">six</a> <img src="x"/>seven</p>'

    def shuffled(html: str) -> str:
        parts = shout(html).replace("<", "\0<").replace(">", ">\0").split("\0")
        for _ in range(chance.randrange(4)):
            one, two = chance.randrange(len(parts)), chance.randrange(len(parts))
            parts[one], parts[two] = parts[two], parts[one]
        return "".join(parts[: len(parts) - chance.randrange(2)])

    page = rewrite("a.html", f"<body>{block * 200}</body>", shuffled).decode()
    expat.ParserCreate().Parse(page, True)
    assert page.count("<img") == page.count("<br/>") == 200


def test_encodings(rewrite: Rewrite) -> None:
    assert rewrite("a.html", "<p>caf\xe9</p>".encode("cp1252")) == "<p>CAF\xc9</p>".encode("cp1252")
    for name in ("undefined", "unicode_escape", "utf_7", "punycode", "hex", "nonsense"):
        for file, text in (("a.html", '<meta charset="{}"><p>a</p>'), ("a.po", 'msgid ""\nmsgstr "charset={}\\n"\n')):
            with pytest.raises(InvalidRequest, match=f"is not {name.upper()}, as it claims"):
                rewrite(file, text.format(name))


@pytest.mark.parametrize(
    ("declared", "written"),
    [("iso-8859-1", "windows-1252"), ("us-ascii", "windows-1252"), ("gb2312", "gb18030"), ("utf-16", "utf-8")],
)
def test_encodings_are_those_of_browsers(declared: str, written: str, rewrite: Rewrite) -> None:
    noting = Noting(shout)
    page = f'<meta charset="{declared}"><p>\u201chello\u201d \u20ac</p>'
    assert rewrite("a.html", page.encode(written), noting) == page.replace("hello", "HELLO").encode(written)
    assert noting.seen == ["\u201chello\u201d \u20ac"]


def test_half_a_character_is_kept(rewrite: Rewrite) -> None:
    assert rewrite("a.json", '["\\ud800 a", "b"]') == b'["\\ud800 a", "B"]'
