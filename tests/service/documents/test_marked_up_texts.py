"""Markdown, reStructuredText, AsciiDoc and LaTeX: what is translated, and what stays."""

import pytest

from service.documents.heading_anchors import anchors_by_page, page_name
from tests.service.documents.conftest import Noting, Rewrite, same, sides

MARKDOWN = """---
title: "«front matter»"
weight: 10
---

# «The *report»* #

A **«bold word** and a [link»](https://example.org "«title")
on a second line with `code` and two spaces»\x20\x20
«after a break, ![picture»](x.png), «and [one»][1].

> «quoted
> text»

- [ ] «item»
- «item
  goes on»

1. <b>«tag»</b> «and \\* star»

```python
print("hello")
```

    indented code

| «Name | Value» |
|------|-------|
| «house» | 12 |

<p>«html»</p>

«Heading»
=======

[1]: https://example.org
"""
REST = """=====
«Title»
=====

«A paragraph with» ``code`` «and» :ref:`x`«
on two lines, see `here» <http://a.b>`_.

.. note:: «Read this».

   «The body».

.. code-block:: python
   :linenos:

   print("hello you")

- «item one
  goes on»
- «item two»

«Run it»::

    ls the files

«Term»
  «The meaning».

+-----+
| tab |
+-----+

.. |x| image:: a.png
   :alt: no

.. a comment

..
   !!!!!
   no

:Key name:
   «a»

:param name: «the name»

«Part»
----
«End».
"""
CASES: dict[str, dict[str, tuple[str, ...]]] = {
    "a.md": {
        "whole": (MARKDOWN,),
        "a link by its words": (
            "see [short]\n\n[short]: no\n",
            "SEE [SHORT][short]\n\n[short]: no\n",
        ),
        "admonition": ('!!! note "«Title»"\n    «Body».\n\n«After».\n',),
        "admonition with code": ("??? tip\n\n    ```sh\n    ls\n    ```\n\n    «Body».\n",),
        "blocks of slashes": ("/// note | «Title»\n«Body».\n///\n",),
        "home page": (
            "---\nlayout: home\nhero:\n  name: no\n  text: «Fast»\nfeatures:\n  - icon: a b\n    details: «So so»\n"
            "---\n",
        ),
        "text between rules": ("---\nno\n---\n«Body».\n",),
        "tabs": ('=== "«Linux»"\n\n    «Run it».\n',),
        "container": ("::: warning\n«Body».\n:::\n",),
        "container with a title": (":::tip[«A title»]\n«Body».\n:::\n",),
        "container with words": (":::tip «Good idea»\n\n«Body».\n\n:::\n",),
        "container of pandoc": ("::: {.note}\n«Body».\n:::\n",),
        "object of mkdocstrings": ("::: my_module.Thing\n",),
        "alert": ("> [!NOTE]\n> «one\n> two»\n",),
        "table without outer pipes": ("«a|b»\n:--|--\n«c|d»\n«e|f»\n",),
        "escaped pipe": ("| «a \\| b | c» |\n|---|---|\n",),
        "definition": ("«Term»\n:   «The meaning».\n",),
        "attributes": ("## «Text» {#id .x}\n\n1. «One»\n{ .list }\n",),
        "abbreviation": ("*[HTML]: «Hyper text»\n",),
        "shortcode": ('{{< figure src="a.jpg" title="«The cat»" >}}\n{{< note >}}\n«Body».\n{{< /note >}}\n',),
        "link of Hugo": ('«The [guide»]({{< ref "a.md" >}}) «is».\n',),
        "mdx": ('import Tabs from \'@theme/Tabs\';\n\n<Tab value="a" label="«First»">\n\n«Text».\n\n</Tab>\n',),
        "body of a component": (
            "<Tabs\n  a={b}\n>\n  <Note>\n    **«Important**: see\n    [this»](a).\n  </Note>\n\n      code\n</Tabs>\n",
        ),
        "components that cross": ("<A>\n*«one»*\n<B>\n\n*«two»*\n</A>\n\n*«three»*\n\n</B>\n",),
        "footnote": ("«a»[^1]\n\n[^1]: «One».\n\n    «Two».\n",),
        "code in a list": ("- «a»\n\n      code here\n\n- «b»\n",),
        "titles": ('![«cat»](a.png "«My cat") and [b»](c "D «e»").\n',),
        "toml": ('+++\ntitle = "«A b»"\ndraft = true\n+++\n«text»\n',),
        "formulas": ("«see $a^2 + b_1$ and» \\(x\\)\n\n$$\nx = y\n$$\n",),
        "wiki links": ("«see» [[A b|«the list»]], ![[c d.png]]\n",),
        "marks": ("==«a== ~~b»~~ c^2^ (H~2~SO~4~), «note»^1^ ++ctrl+s++\n",),
        "keys": ("«press» <kbd>A</kbd>+<kbd>b</kbd> «now»\n",),
        "marks in html": ("<div>\n«a **b** c»\n</div>\n",),
        "break in a quotation": ("> «one»  \r\n> «two»\\\r\n> «three»\r\n",),
        "linked headings": (
            "see [a](#the-2nd-part) [b](#Ecole) [c](#x-1)\n\n# The *2nd* part!\n\n## École\n\n## x\n\n## x\n\n## y\n",
            'SEE [A](#the-2nd-part) [B](#Ecole) [C](#x-1)\n\n# <a id="the-2nd-part"></a>THE *2ND* PART!\n\n'
            '## <a id="Ecole"></a>ÉCOLE\n\n## X\n\n## <a id="x-1"></a>X\n\n## Y\n',
        ),
        "linked headings of Hugo": (
            "# a {#b}\n\n## c\n\n[a]: #c\n[b]: #b\n[e]: #e\n\ne\n===\n",
            "# A {#b}\n\n## C {#c}\n\n[a]: #c\n[b]: #b\n[e]: #e\n\nE {#e}\n===\n",
        ),
        "emphasis across": ("*«a **b** c»*\n",),
    },
    "a.rst": {
        "whole": (REST,),
        "references": (
            "See `a b`_, x_, word__ and :ref:`Big b`.\n\n.. _x: no\n\nA  b\n----\nc d_e __f__\n\nBig b\n=====\n",
            "SEE `A B <a b_>`_, `X <x_>`_, `WORD`__ AND :ref:`Big b`.\n\n.. _x: no\n\n.. _`A  b`:\n\nA  B\n----\n"
            "C D_E __F__\n\n.. _`Big b`:\n\nBIG B\n=====\n",
        ),
    },
    "a.adoc": {
        "a document's head": ("= «A title»\nAnna <a@b.c>\n:toc: left\n\n«text»\n",),
        "headings": ("== «one»\n\n«two old»\n-------\n# «three»\n",),
        "lines": ("«one\ntwo» +\n«three»\n// no\n«four»\n",),
        "bold": ("«a *b* _c»_ `no` [.x]#«d# snake_case_x»",),
        "quotes": ('«say "`hello» `no` «you»`" {no}',),
        "links": ("«see» https://a.b/c[«it»], <<no,«two»>>, xref:no.adoc[] «or» {no}/x[«three»] kbd:[no]",),
        "anchors of headings": (
            "<<_b_c>> <<B d>> link:#_e[f] <<_g,h>>\n\n== B c\n\nb d\n~~~\n\n[[x]]\n== e\n\n=== g\n\n== i\n",
            "<<_b_c>> <<B d>> link:#_e[F] <<_g,H>>\n\n[[_b_c]]\n== B C\n\n[[_b_d,B d]]\nB D\n~~~\n\n[[x]]\n== E\n\n"
            "[[_g]]\n=== G\n\n== I\n",
        ),
        "a note": ("«a» footnote:x[«the *note*] b»",),
        "items": ("* «a\nb»\n** [x] «c»\n. «d»\n+\n----\nno\n----\n<1> «e»",),
        "terms": ("«a b:: c»\n«d»::\n  «e»\n\n«f;; g::h»",),
        "admonitions": ("NOTE: «a»\n\n[TIP]\n====\n«b»\n====\n",),
        "code": (".«a»\n[source,rb]\nno\n\n[source]\n--\nno\n\nno\n--\n no\n\n```rb\nno\n```\n«b»\n",),
        "macros": ("include::no.adoc[]\nimage::no.png[«a b», 20]\n'''\n",),
        "a table": ("[cols=2]\n|===\n|«a |2+|b\nc»\nl|no m|no\na|\n* «d»\n|===\n",),
        "an open block": ("----\nno",),
    },
    "a.tex": {
        "a document": (
            "\\newcommand{\\x}{no}\n\\title[no]{«a»}\n\\begin{document}\n\\maketitle\n«b»\n\\end{document}\nno",
        ),
        "headings": ("\\section*{«a» \\emph{«b»}}\\label{no}\n«c\nd»\n\n% no\n",),
        "inside": ("«a» \\textbf{«b» \\emph{«c»}} {\\bf «d»} \\texttt{no} \\LaTeX{} \\no{no}[no] «e»",),
        "formulas": ("«a» $no$ «b» \\(no\\) «c\n»\\[ no \\]«\nd» $$no$$ «e»",),
        "signs": ("«a 5\\,\\% \\& ``b'' -- c»~\\cite[p. 3]{no}.",),
        "accents": (
            "caf\\'e na\\\"{\\i}ve \\c{c}a \\cite{no}",
            "CAFÉ NAÏVE ÇA \\cite{no}",
        ),
        "notes": ("«a»\\footnote{«b» \\emph{«c}} d»",),
        "items": ("\\begin{itemize}[no]\n  \\item «a»\n  \\item[«b] c»\n\\end{itemize}",),
        "cells": ("\\begin{tabular}{l|c}\n«a & b»\\\\[2pt] \\hline\n\\end{tabular}",),
        "a picture": ("\\begin{figure}\\includegraphics{no}\\caption{«a»}\\end{figure}",),
        "slides": ("\\begin{frame}{«a»}\n«b»\n\\end{frame}",),
        "code": ("\\begin{verbatim}\nno\n\\end{verbatim} «a» \\verb|no| % no\n«b»",),
        "braces": ("«a { b } } c» {",),
        "an open environment": ("«a» \\begin{equation} no",),
        "a link": ("\\href{no}{«a} b»",),
    },
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_only_texts_differ(name: str, case: str, rewrite: Rewrite) -> None:
    source, expected = sides(*CASES[name][case])
    assert rewrite(name, source, same).decode() == source
    assert rewrite(name, source).decode() == expected


def test_signs_of_a_translation_are_spelled_for_latex(rewrite: Rewrite) -> None:
    assert rewrite("a.tex", "word", lambda _: "5 % & a_b \\ \u201cc\u201d\u00a0d").decode() == (
        "5 \\% \\& a\\_b \\textbackslash{} ``c''~d"
    )


def test_marks_are_tags_to_the_model_and_formulas_are_words(rewrite: Rewrite) -> None:
    noting = Noting()
    rewrite("a.md", "is x^2^ <kbd>A</kbd>+<kbd>b</kbd>\n\n<div>\na **b** c\n</div>\n", noting)
    assert noting.seen == ['is <code id="2"></code> <code id="4"></code>', "a <g2>b</g2> c"]


def test_pages_know_what_others_link_to_in_them() -> None:
    pages = [("a/b.md", "[x](../c/#1) [x](d.md#2) [x](#no) <a href='/e/d#3'>"), ("README.md", "[x]: c/index.md#4")]
    assert anchors_by_page(pages) == {"c": {"1", "4"}, "d": {"2", "3"}}
    assert [*map(page_name, ("c/index.md", "c/README.md", "e/d.mdx"))] == ["c", "c", "d"]


def test_the_marks_of_a_heading_are_as_long_as_it_is(rewrite: Rewrite) -> None:
    assert rewrite("a.adoc", "one\n~~~\n", lambda html: html * 3) == b"oneoneone\n~~~~~~~~~\n"
    longer = rewrite("a.rst", "====\n one\n====\n\ntwo\n~~~\n", lambda html: html * 3).decode()
    assert longer == "===========\n oneoneone\n===========\n\ntwotwotwo\n~~~~~~~~~\n"
