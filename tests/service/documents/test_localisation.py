"""Files of messages: what a translator's programs need to find again."""

import pytest

from service.errors import InvalidRequest
from tests.service.documents.conftest import Noting, Rewrite, shout, sides


def _po(rewrite: Rewrite, message: str) -> tuple[str, str]:
    """Return what is translated of a message, and its translation in capitals."""
    noting = Noting(shout)
    written = rewrite("a.po", f'msgid "{message}"\nmsgstr ""\n', noting).decode()
    flag, _, translation = written.partition("msgid")
    assert flag == "#, fuzzy\n"
    return noting.seen[0], translation.partition("msgstr ")[2].strip().strip('"')


def test_marks_of_restructured_text(rewrite: Rewrite) -> None:
    seen, written = _po(rewrite, "a ``b a`` :ref:`a` `a b <http://a>`_ |a| *a* **a**::")
    assert seen == (
        'a <code id="2"></code> <code id="4"></code> <a id="6">a b</a> <code id="10"></code> <g12>a</g12> <g16>a</g16>'
    )
    assert written == "A ``b a`` :ref:`a` `A B <http://a>`_ |a| *A* **A**::"


def test_columns_of_help_stay(rewrite: Rewrite) -> None:
    assert _po(rewrite, "  -h, --help=WHAT     show a\\n") == ("show a", "  -h, --help=WHAT     SHOW A\\n")


def test_a_plural_whose_later_form_alone_is_empty_becomes_fuzzy(rewrite: Rewrite) -> None:
    po = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\nmsgstr[1] "{}"\nmsgstr[2] "{}"\n'
    assert rewrite("a.po", po.format("", "")).decode() == "#, fuzzy\n" + po.format("B", "B")


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
FOREIGN = "<q:target xmlns:q='urn:q'>n</q:target>"


@pytest.mark.parametrize(
    "content",
    [
        "«a\n b»",
        '«a» <bpt id="1">b</bpt>«c»<ept id="1">b</ept>',
        '«a» <mrk mtype="protected">b</mrk>',
        "&lt;b&gt;«a»&lt;/b&gt; «c»",
        '«see» <x id="START_LINK"/>«a»<x id="CLOSE_LINK"/>',
        "<![CDATA[«a» <b>«b»</b> & «c»]]>",
        "<![CDATA[<b>]]>«a» &amp; «b»",
        '«a» <g id="1"></g> «b»',
    ],
)
def test_contents_of_units(content: str, rewrite: Rewrite) -> None:
    source, target = sides(content)
    unit = f'<trans-unit id="1"><source>{source}</source>{{}}</trans-unit>'
    written = rewrite("a.xlf", _UNITS.format(unit.format(""))).decode()
    assert written == _UNITS.format(unit.format(f"<target>{target}</target>"))


@pytest.mark.parametrize(
    ("unit", "target"),
    [
        (
            '<trans-unit id="1" xml:space="preserve"><source>a\n b\n</source>{}</trans-unit>',
            "<target>A\n B\n</target>",
        ),
        (
            '<trans-unit id="1"><source>a. b</source><seg-source><mrk mtype="seg" mid="1">a.</mrk> <mrk mtype="seg" '
            'mid="2">b</mrk></seg-source>{}</trans-unit>',
            '<target><mrk mtype="seg" mid="1">A.</mrk> <mrk mtype="seg" mid="2">B</mrk></target>',
        ),
        ('<trans-unit id="1"><source>{{n, plural, one {{a}} other {{b}}}}</source>{}</trans-unit>', ""),
        (
            f'<trans-unit id="1"><source>a</source>{{}}{FOREIGN}</trans-unit>'
            '<q:segment xmlns:q="urn:q"><q:source>b</q:source></q:segment>',
            "<target>A</target>",
        ),
    ],
    ids=["space", "segments", "cases", "elements of other namespaces"],
)
def test_units(unit: str, target: str, rewrite: Rewrite) -> None:
    assert rewrite("a.xlf", _UNITS.format(unit.format(""))).decode() == _UNITS.format(unit.format(target))


_OLD = '<trans-unit id="1"><source>a</source>{}</trans-unit>'
_NEW = (
    '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="fr"><x:segment>'
    '<x:source>a <x:mrk id="1" translate="no">b</x:mrk> <x:pc id="2">c</x:pc></x:source>{}</x:segment></x:xliff>'
)


@pytest.mark.parametrize(
    ("file", "seen", "target", "change"),
    [
        (_UNITS.format(_OLD).replace('"fr"', "''"), "a", "<target>A</target>", ("''", "'fr'")),
        (
            f'<xliff version="1.0"><file>{_OLD}</file></xliff>',
            "a",
            "<target>A</target>",
            ("<file", '<file target-language="fr"'),
        ),
        (
            _NEW,
            'a <code id="2"></code> <g4>c</g4>',
            '<x:target>A <x:mrk id="1" translate="no">b</x:mrk> <x:pc id="2">C</x:pc></x:target>',
            ("", ""),
        ),
    ],
    ids=["an empty language is filled in", "the first version has no namespace", "names may have a prefix"],
)
def test_xliff(file: str, seen: str, target: str, change: tuple[str, str], rewrite: Rewrite) -> None:
    noting = Noting(shout)
    assert rewrite("a.xlf", file.format(""), noting).decode() == file.format(target).replace(*change)
    assert noting.seen == [seen]


def test_an_end_never_comes_before_its_beginning(rewrite: Rewrite) -> None:
    source = '<trans-unit id="1"><source>a <bpt id="1">b</bpt>c<ept id="1">b</ept> d</source></trans-unit>'
    written = rewrite("a.xlf", _UNITS.format(source), lambda _: "</g2>c<g2> a").decode()
    target = written.partition("<target>")[2]
    assert 0 <= target.find("<bpt") < target.find("<ept")


def test_a_section_ends_where_its_text_does(rewrite: Rewrite) -> None:
    file = "<resources><string name='a'><![CDATA[{}]]></string></resources>"
    written = rewrite("a.xml", file.format("<b>it</b>"), lambda _: "<g1>l'a[0]]</g1>]]&gt;&amp;").decode()
    assert written == file.format("<b>l\\'a[0]]</b>]]]]><![CDATA[>&")


TS = (
    "<!DOCTYPE TS>\n<TS><context><name>no</name><message><source>a &amp;cat</source>"
    '<translation type="unfinished">{}</translation></message><message numerus="yes"><source>a file</source>'
    '<translation type="unfinished"><numerusform>{}</numerusform><numerusform>{}</numerusform></translation></message>'
    "<message><source>done</source><translation>fait</translation></message></context></TS>"
)
TMX = '<tmx><body><tu><tuv xml:lang="en-US"><seg>a <bpt i="1"/>cat<ept i="1"/></seg></tuv>{}</tu></body></tmx>'


def test_messages_of_qt(rewrite: Rewrite) -> None:
    assert rewrite("a.ts", TS.format("", "", "")).decode() == TS.format("A &amp;CAT", "A FILE", "A FILE")


def test_a_translation_memory_gets_another_language(rewrite: Rewrite) -> None:
    added = '<tuv xml:lang="fr"><seg>A <bpt i="1"/>CAT<ept i="1"/></seg></tuv>'
    assert rewrite("a.tmx", TMX.format("")).decode() == TMX.format(added)
    assert rewrite("a.tmx", TMX.format(added)).decode() == TMX.format(added)


def test_properties(rewrite: Rewrite) -> None:
    assert rewrite("a.properties", "a=caf\xe9 is\n".encode("latin-1")) == "a=CAF\xc9 IS\n".encode("latin-1")
    lacking = rewrite("a.properties", "a=caf\xe9 is\n".encode("latin-1"), lambda _: "\xe9 \u0153\U0001f600")
    assert lacking == b"a=\xe9 \\u0153\\ud83d\\ude00\n"
    assert rewrite("a.properties", "a=b\n", lambda _: "\u201cb\U0001f600") == b"a=\\u201cb\\ud83d\\ude00\n"
    java = "a=it''s {0}\nb=see {0}\nc=it's\n"
    assert (
        rewrite("a.properties", java, lambda html: html.replace("s", "s'")) == b"a=it''s'' {0}\nb=s''ee {0}\nc=it's'\n"
    )
    assert rewrite("a.properties", "a=see {0}\n", lambda _: "l'{0}") == b"a=l\\u2019{0}\n"
    assert rewrite("a.properties", "a=true\nb=it is true\n") == b"a=true\nb=IT IS TRUE\n"  # a switch of the program
