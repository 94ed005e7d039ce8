"""AsciiDoc and LaTeX: what is translated, and what stays."""

import pytest

from tests.service.documents.conftest import Rewrite, same

CASES = {
    "a.adoc": {
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
        "anchors of headings": (
            "<<_b_c>> <<B d>> link:#_e[f] <<_g,h>>\n\n== B c\n\nb d\n~~~\n\n[[x]]\n== e\n\n=== g\n\n== i\n",
            "<<_b_c>> <<B d>> link:#_e[F] <<_g,H>>\n\n[[_b_c]]\n== B C\n\n[[_b_d,B d]]\nB D\n~~~\n\n[[x]]\n== E\n\n"
            "[[_g]]\n=== G\n\n== I\n",
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
    },
    "a.tex": {
        "a document": (
            "\\newcommand{\\x}{no}\n\\title[no]{a}\n\\begin{document}\n\\maketitle\nb\n\\end{document}\nno",
            "\\newcommand{\\x}{no}\n\\title[no]{A}\n\\begin{document}\n\\maketitle\nB\n\\end{document}\nno",
        ),
        "headings": (
            "\\section*{a \\emph{b}}\\label{no}\nc\nd\n\n% no\n",
            "\\section*{A \\emph{B}}\\label{no}\nC D\n\n% no\n",
        ),
        "inside": (
            "a \\textbf{b \\emph{c}} {\\bf d} \\texttt{no} \\LaTeX{} \\no{no}[no] e",
            "A \\textbf{B \\emph{C}} {\\bf D} \\texttt{no} \\LaTeX{} \\no{no}[no] E",
        ),
        "formulas": ("a $no$ b \\(no\\) c\n\\[ no \\]\nd $$no$$ e", "A $no$ B \\(no\\) C \\[ no \\] D $$no$$ E"),
        "signs": ("a 5\\,\\% \\& ``b'' -- c~\\cite[p. 3]{no}.", "A 5\\,\\% \\& ``B'' -- C~\\cite[p. 3]{no}."),
        "accents": ("caf\\'e na\\\"{\\i}ve \\c{c}a \\cite{no}", "CAF\u00c9 NA\u00cfVE \u00c7A \\cite{no}"),
        "notes": ("a\\footnote{b \\emph{c}} d", "A\\footnote{B \\emph{C}} D"),
        "items": (
            "\\begin{itemize}[no]\n  \\item a\n  \\item[b] c\n\\end{itemize}",
            "\\begin{itemize}[no]\n  \\item A\n  \\item[B] C\n\\end{itemize}",
        ),
        "cells": (
            "\\begin{tabular}{l|c}\na & b\\\\[2pt] \\hline\n\\end{tabular}",
            "\\begin{tabular}{l|c}\nA & B\\\\[2pt] \\hline\n\\end{tabular}",
        ),
        "a picture": (
            "\\begin{figure}\\includegraphics{no}\\caption{a}\\end{figure}",
            "\\begin{figure}\\includegraphics{no}\\caption{A}\\end{figure}",
        ),
        "slides": ("\\begin{frame}{a}\nb\n\\end{frame}", "\\begin{frame}{A}\nB\n\\end{frame}"),
        "code": (
            "\\begin{verbatim}\nno\n\\end{verbatim} a \\verb|no| % no\nb",
            "\\begin{verbatim}\nno\n\\end{verbatim} A \\verb|no| % no\nB",
        ),
        "braces": ("a { b } } c {", "A { B } } C {"),
        "an open environment": ("a \\begin{equation} no", "A \\begin{equation} no"),
        "a link": ("\\href{no}{a} b", "\\href{no}{A} B"),
    },
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_only_texts_differ(name: str, case: str, rewrite: Rewrite) -> None:
    source, expected = CASES[name][case]
    assert rewrite(name, source, same).decode() == source
    assert rewrite(name, source).decode() == expected


def test_the_line_under_a_heading_is_as_long_as_it_is(rewrite: Rewrite) -> None:
    assert rewrite("a.adoc", "one\n~~~\n", lambda html: html * 3) == b"oneoneone\n~~~~~~~~~\n"


def test_signs_of_a_translation_are_spelled_for_latex(rewrite: Rewrite) -> None:
    assert rewrite("a.tex", "word", lambda _: "5 % & a_b \\ \u201cc\u201d\u00a0d").decode() == (
        "5 \\% \\& a\\_b \\textbackslash{} ``c''~d"
    )
