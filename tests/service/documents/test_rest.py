"""reStructuredText: what is translated, and what stays."""

from tests.service.documents.conftest import Rewrite, same

SOURCE = """=====
Title
=====

A paragraph with ``code`` and :ref:`x`
on two lines, see `here <http://a.b>`_.

.. note:: Read this.

   The body.

.. code-block:: python
   :linenos:

   print("hello you")

- item one
  goes on
- item two

Run it::

    ls the files

Term
  The meaning.

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
   a

:param name: the name

Part
----
End.
"""
CAPITALS = """=====
TITLE
=====

A PARAGRAPH WITH ``code`` AND :ref:`x` ON TWO LINES, SEE `HERE <http://a.b>`_.

.. note:: READ THIS.

   THE BODY.

.. code-block:: python
   :linenos:

   print("hello you")

- ITEM ONE GOES ON
- ITEM TWO

RUN IT::

    ls the files

TERM
  THE MEANING.

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
   A

:param name: THE NAME

PART
----
END.
"""


def test_only_texts_differ(rewrite: Rewrite) -> None:
    assert rewrite("a.rst", SOURCE, same).decode() == SOURCE
    assert rewrite("a.rst", SOURCE).decode() == CAPITALS


def test_references_lead_to_the_names_that_they_had(rewrite: Rewrite) -> None:
    source = "See `a b`_, x_, word__ and :ref:`Big b`.\n\n.. _x: no\n\nA  b\n----\nc d_e __f__\n\nBig b\n=====\n"
    written = (
        "SEE `A B <a b_>`_, `X <x_>`_, `WORD`__ AND :ref:`Big b`.\n\n.. _x: no\n\n.. _`A  b`:\n\nA  B\n----\n"
        "C D_E __F__\n\n.. _`Big b`:\n\nBIG B\n=====\n"
    )
    assert rewrite("a.rst", source, same).decode() == source
    assert rewrite("a.rst", source).decode() == written


def test_the_marks_of_a_heading_are_as_long_as_it_is(rewrite: Rewrite) -> None:
    longer = rewrite("a.rst", "====\n one\n====\n\ntwo\n~~~\n", lambda html: html * 3).decode()
    assert longer == "===========\n oneoneone\n===========\n\ntwotwotwo\n~~~~~~~~~\n"
