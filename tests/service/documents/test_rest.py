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


def test_the_marks_of_a_heading_are_as_long_as_it_is(rewrite: Rewrite) -> None:
    longer = rewrite("a.rst", "====\n one\n====\n\ntwo\n~~~\n", lambda html: html * 3).decode()
    assert longer == "===========\n oneoneone\n===========\n\ntwotwotwo\n~~~~~~~~~\n"
