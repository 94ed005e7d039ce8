"""AsciiDoc: what is translated, and what stays."""

import pytest

from tests.service.documents.conftest import Rewrite, same

CASES = {
    "a document's head": (
        "= A title\nAnna <a@b.c>\n:toc: left\n\ntext\n",
        "= A TITLE\nAnna <a@b.c>\n:toc: left\n\nTEXT\n",
    ),
    "headings": ("== one\n\ntwo old\n-------\n# three\n", "== ONE\n\nTWO OLD\n-------\n# THREE\n"),
    "lines": ("one\ntwo +\nthree\n// no\nfour\n", "ONE TWO +\nTHREE\n// no\nFOUR\n"),
    "bold": ("a *b* _c_ `no` [.x]#d# snake_case_x", "A *B* _C_ `no` [.x]#D# SNAKE_CASE_X"),
    "quotes": ('say "`hello `no` you`" {no}', 'SAY "`HELLO `no` YOU`" {no}'),
    "links": (
        "see https://a.b/c[it], <<no,two>>, xref:no.adoc[] or {no}/x[three] kbd:[no]",
        "SEE https://a.b/c[IT], <<no,TWO>>, xref:no.adoc[] OR {no}/x[THREE] kbd:[no]",
    ),
    "a note": ("a footnote:x[the *note*] b", "A footnote:x[THE *NOTE*] B"),
    "items": ("* a\nb\n** [x] c\n. d\n+\n----\nno\n----\n<1> e", "* A B\n** [x] C\n. D\n+\n----\nno\n----\n<1> E"),
    "terms": ("a b:: c\nd::\n  e\n\nf;; g::h", "A B:: C\nD::\n  E\n\nF;; G::H"),
    "admonitions": ("NOTE: a\n\n[TIP]\n====\nb\n====\n", "NOTE: A\n\n[TIP]\n====\nB\n====\n"),
    "code": (
        ".a\n[source,rb]\nno\n\n[source]\n--\nno\n\nno\n--\n no\n\n```rb\nno\n```\nb\n",
        ".A\n[source,rb]\nno\n\n[source]\n--\nno\n\nno\n--\n no\n\n```rb\nno\n```\nB\n",
    ),
    "macros": (
        "include::no.adoc[]\nimage::no.png[a b, 20]\n'''\n",
        "include::no.adoc[]\nimage::no.png[A B, 20]\n'''\n",
    ),
    "a table": (
        "[cols=2]\n|===\n|a |2+|b\nc\nl|no m|no\na|\n* d\n|===\n",
        "[cols=2]\n|===\n|A |2+|B C\nl|no m|no\na|\n* D\n|===\n",
    ),
    "an open block": ("----\nno", "----\nno"),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_only_texts_differ(source: str, expected: str, rewrite: Rewrite) -> None:
    assert rewrite("a.adoc", source, same).decode() == source
    assert rewrite("a.adoc", source).decode() == expected


def test_the_line_under_a_heading_is_as_long_as_it_is(rewrite: Rewrite) -> None:
    assert rewrite("a.adoc", "one\n~~~\n", lambda html: html * 3) == b"oneoneone\n~~~~~~~~~\n"
