"""PO and XLIFF: what a translator\'s programs need to find again."""

import pytest

from service.errors import InvalidRequest
from tests.service.documents.conftest import Rewrite, shout


def _po(rewrite: Rewrite, message: str) -> tuple[str, str]:
    """Return what is translated of a message, and its translation in capitals."""
    seen: list[str] = []

    def remember(html: str) -> str:
        seen.append(html)
        return shout(html)

    written = rewrite("a.po", f'msgid "{message}"\nmsgstr ""\n', remember).decode()
    flag, _, translation = written.partition("msgid")
    assert flag == "#, fuzzy\n"
    return seen[0], translation.partition("msgstr ")[2].strip().strip('"')


def test_marks_of_restructured_text(rewrite: Rewrite) -> None:
    seen, written = _po(rewrite, "a ``b a`` :ref:`a` `a b <http://a>`_ |a| *a* **a**::")
    assert seen == (
        'a <code id="2"></code> <code id="4"></code> <a id="6">a b</a> <code id="10"></code> <g12>a</g12> <g16>a</g16>'
    )
    assert written == "A ``b a`` :ref:`a` `A B <http://a>`_ |a| *A* **A**::"


def test_columns_of_help_stay(rewrite: Rewrite) -> None:
    assert _po(rewrite, "  -h, --help=WHAT     show a\\n") == ("show a", "  -h, --help=WHAT     SHOW A\\n")


def test_the_language_of_a_file_is_compared(rewrite: Rewrite) -> None:
    po = 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr ""\n'
    with pytest.raises(InvalidRequest, match=r"^target: must be de, the language in its header, or change it there$"):
        rewrite("a.po", po)
    assert b'"A"' in rewrite("a.po", po.replace("de", "fr_CA"))
    with pytest.raises(InvalidRequest, match=r"^target: must be de, the language in the file"):
        rewrite("a.xlf", _UNITS.format("").replace('"fr"', '"de"'))


_UNITS = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"'
    ' target-language="fr">{}</file></xliff>'
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("<source>a\n b</source>", "<target>A B</target>"),
        ("<source xml:space='preserve'>a\n b\n</source>", "<target>A\n B\n</target>"),
        (
            '<source>a <bpt id="1">b</bpt>c<ept id="1">b</ept></source>',
            '<target>A <bpt id="1">b</bpt>C<ept id="1">b</ept></target>',
        ),
        ('<source>a <mrk mtype="protected">b</mrk></source>', '<target>A <mrk mtype="protected">b</mrk></target>'),
        ("<source>&lt;b&gt;a&lt;/b&gt; c</source>", "<target>&lt;b&gt;A&lt;/b&gt; C</target>"),
        (
            '<source>a. b</source><seg-source><mrk mtype="seg" mid="1">a.</mrk> <mrk mtype="seg" mid="2">b</mrk>'
            "</seg-source>",
            '<target><mrk mtype="seg" mid="1">A.</mrk> <mrk mtype="seg" mid="2">B</mrk></target>',
        ),
        (
            '<source>see <x id="START_LINK"/>a<x id="CLOSE_LINK"/></source>',
            '<target>SEE <x id="START_LINK"/>A<x id="CLOSE_LINK"/></target>',
        ),
        ("<source>{n, plural, one {a} other {b}}</source>", ""),
        ('<source>a <g id="1"></g> b</source>', '<target>A <g id="1"></g> B</target>'),
    ],
)
def test_units(source: str, target: str, rewrite: Rewrite) -> None:
    if "xml:space" in source:
        source = source.replace(" xml:space='preserve'", "")
        unit, space = '<trans-unit id="1" xml:space="preserve">', "</trans-unit>"
    else:
        unit, space = '<trans-unit id="1">', "</trans-unit>"
    written = rewrite("a.xlf", _UNITS.format(unit + source + space)).decode()
    assert written == _UNITS.format(unit + source + target + space)


def test_the_first_xliff_has_no_namespace(rewrite: Rewrite) -> None:
    file = '<xliff version="1.0"><file><trans-unit id="1"><source>a</source>{}</trans-unit></file></xliff>'
    written = rewrite("a.xlf", file.format("")).decode()
    assert written == file.format("<target>A</target>").replace("<file>", '<file target-language="fr">')


def test_an_end_never_comes_before_its_beginning(rewrite: Rewrite) -> None:
    source = '<trans-unit id="1"><source>a <bpt id="1">b</bpt>c<ept id="1">b</ept> d</source></trans-unit>'
    written = rewrite("a.xlf", _UNITS.format(source), lambda _: "</g2>c<g2> a").decode()
    target = written.partition("<target>")[2]
    assert 0 <= target.find("<bpt") < target.find("<ept")
