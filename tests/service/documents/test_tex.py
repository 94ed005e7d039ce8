"""LaTeX: what is translated, and what stays."""

import pytest

from tests.service.documents.conftest import Rewrite, same

CASES = {
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
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_only_texts_differ(source: str, expected: str, rewrite: Rewrite) -> None:
    assert rewrite("a.tex", source, same).decode() == source
    assert rewrite("a.tex", source).decode() == expected


def test_signs_of_a_translation_are_spelled_for_latex(rewrite: Rewrite) -> None:
    assert rewrite("a.tex", "word", lambda _: "5 % & a_b \\ \u201cc\u201d\u00a0d").decode() == (
        "5 \\% \\& a\\_b \\textbackslash{} ``c''~d"
    )
