"""Markdown of documentation sites: all constructs stay alive, and all texts are translated."""

import pytest

from service.documents.heading_anchors import anchors_by_page, page_name
from tests.service.documents.conftest import Rewrite, same

MARKDOWN = """---
title: "front matter"
weight: 10
---

# The *report* #

A **bold word** and a [link](https://example.org "title")
on a second line with `code` and two spaces\x20\x20
after a break, ![picture](x.png), [one][1] and [short].

> quoted
> text

- [ ] item
- item
  goes on

1. <b>tag</b> and \\* star

```python
print("hello")
```

    indented code

| Name | Value |
|------|-------|
| house | 12 |

<p>html</p>

Heading
=======

[1]: https://example.org
[short]: https://example.org/s
"""
MARKDOWN_IN_CAPITALS = """---
title: "FRONT MATTER"
weight: 10
---

# THE *REPORT* #

A **BOLD WORD** AND A [LINK](https://example.org "TITLE") ON A SECOND LINE WITH `CODE` AND TWO SPACES\x20\x20
AFTER A BREAK, ![PICTURE](x.png), [ONE][1] AND [SHORT][short].

> QUOTED TEXT

- [ ] ITEM
- ITEM GOES ON

1. <b>TAG</b> AND \\* STAR

```python
print("hello")
```

    indented code

| NAME | VALUE |
|------|-------|
| HOUSE | 12 |

<p>HTML</p>

HEADING
=======

[1]: https://example.org
[short]: https://example.org/s
"""
CASES = {
    "whole": (MARKDOWN, MARKDOWN_IN_CAPITALS),
    "admonition": ('!!! note "Title"\n    Body.\n\nAfter.\n', '!!! note "TITLE"\n    BODY.\n\nAFTER.\n'),
    "admonition with code": (
        "??? tip\n\n    ```sh\n    ls\n    ```\n\n    Body.\n",
        "??? tip\n\n    ```sh\n    ls\n    ```\n\n    BODY.\n",
    ),
    "blocks of slashes": ("/// note | Title\nBody.\n///\n", "/// note | TITLE\nBODY.\n///\n"),
    "home page": (
        "---\nlayout: home\nhero:\n  name: no\n  text: Fast\nfeatures:\n  - icon: a b\n    details: So so\n---\n",
        "---\nlayout: home\nhero:\n  name: no\n  text: FAST\nfeatures:\n  - icon: a b\n    details: SO SO\n---\n",
    ),
    "tabs": ('=== "Linux"\n\n    Run it.\n', '=== "LINUX"\n\n    RUN IT.\n'),
    "container": ("::: warning\nBody.\n:::\n", "::: warning\nBODY.\n:::\n"),
    "container with a title": (":::tip[A title]\nBody.\n:::\n", ":::tip[A TITLE]\nBODY.\n:::\n"),
    "container with words": (":::tip Good idea\n\nBody.\n\n:::\n", ":::tip GOOD IDEA\n\nBODY.\n\n:::\n"),
    "container of pandoc": ("::: {.note}\nBody.\n:::\n", "::: {.note}\nBODY.\n:::\n"),
    "object of mkdocstrings": ("::: my_module.Thing\n", "::: my_module.Thing\n"),
    "alert": ("> [!NOTE]\n> one\n> two\n", "> [!NOTE]\n> ONE TWO\n"),
    "table without outer pipes": ("a|b\n:--|--\nc|d\ne|f\n", "A|B\n:--|--\nC|D\nE|F\n"),
    "escaped pipe": ("| a \\| b | c |\n|---|---|\n", "| A \\| B | C |\n|---|---|\n"),
    "definition": ("Term\n:   The meaning.\n", "TERM\n:   THE MEANING.\n"),
    "attributes": ("## Text {#id .x}\n\n1. One\n{ .list }\n", "## TEXT {#id .x}\n\n1. ONE\n{ .list }\n"),
    "abbreviation": ("*[HTML]: Hyper text\n", "*[HTML]: HYPER TEXT\n"),
    "shortcode": (
        '{{< figure src="a.jpg" title="The cat" >}}\n{{< note >}}\nBody.\n{{< /note >}}\n',
        '{{< figure src="a.jpg" title="THE CAT" >}}\n{{< note >}}\nBODY.\n{{< /note >}}\n',
    ),
    "link of Hugo": ('The [guide]({{< ref "a.md" >}}) is.\n', 'THE [GUIDE]({{< ref "a.md" >}}) IS.\n'),
    "mdx": (
        'import Tabs from \'@theme/Tabs\';\n\n<Tab value="a" label="First">\n\nText.\n\n</Tab>\n',
        'import Tabs from \'@theme/Tabs\';\n\n<Tab value="a" label="FIRST">\n\nTEXT.\n\n</Tab>\n',
    ),
    "body of a component": (
        "<Tabs\n  a={b}\n>\n  <Note>\n    **Important**: see\n    [this](a).\n  </Note>\n\n      code\n</Tabs>\n",
        "<Tabs\n  a={b}\n>\n  <Note>\n    **IMPORTANT**: SEE [THIS](a).\n  </Note>\n\n      code\n</Tabs>\n",
    ),
    "components that cross": (
        "<A>\n*one*\n<B>\n\n*two*\n</A>\n\n*three*\n\n</B>\n",
        "<A>\n*ONE*\n<B>\n\n*TWO*\n</A>\n\n*THREE*\n\n</B>\n",
    ),
    "footnote": ("a[^1]\n\n[^1]: One.\n\n    Two.\n", "A[^1]\n\n[^1]: ONE.\n\n    TWO.\n"),
    "code in a list": ("- a\n\n      code here\n\n- b\n", "- A\n\n      code here\n\n- B\n"),
    "titles": ('![cat](a.png "My cat") and [b](c "D e").\n', '![CAT](a.png "MY CAT") AND [B](c "D E").\n'),
    "toml": ('+++\ntitle = "A b"\ndraft = true\n+++\ntext\n', '+++\ntitle = "A B"\ndraft = true\n+++\nTEXT\n'),
    "formulas": ("see $a^2 + b_1$ and \\(x\\)\n\n$$\nx = y\n$$\n", "SEE $A^2 + B_1$ AND \\(x\\)\n\n$$\nx = y\n$$\n"),
    "wiki links": ("see [[A b|the list]], ![[c d.png]]\n", "SEE [[A b|THE LIST]], ![[c d.png]]\n"),
    "marks": (
        "==a== ~~b~~ c^2^ (H~2~SO~4~), note^1^ ++ctrl+s++\n",
        "==A== ~~B~~ c^2^ (H~2~SO~4~), NOTE^1^ ++ctrl+s++\n",
    ),
    "keys": ("press <kbd>A</kbd>+<kbd>b</kbd> now\n", "PRESS <kbd>A</kbd>+<kbd>b</kbd> NOW\n"),
    "marks in html": ("<div>\na **b** c\n</div>\n", "<div>\nA **B** C\n</div>\n"),
    "break in a quotation": ("> one  \r\n> two\\\r\n> three\r\n", "> ONE  \r\n> TWO\\\r\n> THREE\r\n"),
    "linked headings": (
        "see [a](#the-2nd-part) [b](#Ecole) [c](#x-1)\n\n# The *2nd* part!\n\n## École\n\n## x\n\n## x\n\n## y\n",
        "SEE [A](#the-2nd-part) [B](#Ecole) [C](#x-1)\n\n"
        '# <a id="the-2nd-part"></a>THE *2ND* PART!\n\n## <a id="Ecole"></a>ÉCOLE\n\n## X\n\n'
        '## <a id="x-1"></a>X\n\n## Y\n',
    ),
    "linked headings of Hugo": (
        "# a {#b}\n\n## c\n\n[a]: #c\n[b]: #b\n[e]: #e\n\ne\n===\n",
        "# A {#b}\n\n## C {#c}\n\n[a]: #c\n[b]: #b\n[e]: #e\n\nE {#e}\n===\n",
    ),
    "emphasis across": ("*a **b** c*\n", "*A **B** C*\n"),
}


def test_marks_are_tags_to_the_model_and_formulas_are_words(rewrite: Rewrite) -> None:
    seen: list[str] = []

    def noting(text: str) -> str:
        seen.append(text)
        return text

    rewrite(
        "a.md",
        "is x^2^ <kbd>A</kbd>+<kbd>b</kbd>\n\n<div>\na **b** c\n</div>\n",
        noting,
    )
    assert seen == ['is <code id="2"></code> <code id="4"></code>', "a <g2>b</g2> c"]


def test_pages_know_what_others_link_to_in_them() -> None:
    pages = [("a/b.md", "[x](../c/#1) [x](d.md#2) [x](#no) <a href='/e/d#3'>"), ("README.md", "[x]: c/index.md#4")]
    assert anchors_by_page(pages) == {"c": {"1", "4"}, "d": {"2", "3"}}
    assert [*map(page_name, ("c/index.md", "c/README.md", "e/d.mdx"))] == ["c", "c", "d"]


@pytest.mark.parametrize(("content", "expected"), CASES.values(), ids=CASES)
def test_translated(content: str, expected: str, rewrite: Rewrite) -> None:
    assert rewrite("a.md", content, same).decode() == content
    assert rewrite("a.md", content).decode() == expected
