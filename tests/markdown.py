"""Parsing of Markdown pages: links, anchors, code and shell commands. Knows nothing of what they should refer to."""

import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_EARLIER: Final = re.compile(r"<!-- at commit [0-9a-f]{7,40} -->\n *$")
"""Precedes a block of code that needs an earlier state of the repository."""
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_SHELL_WORDS: Final = frozenset("do then else exec nice env".split())
_SHELL: Final = frozenset({"sh", "bash", "console", ""})


class Code(NamedTuple):
    """A fenced block, or a span within a line, whose language is None."""

    text: str
    language: str | None = None


def prose(text: str) -> str:
    """Return the page without its fenced blocks."""
    return _FENCE.sub("", text)


def code(text: str) -> Iterator[Code]:
    """Yield blocks and spans, but no block that is of an earlier commit."""
    for block in _FENCE.finditer(text):
        if not _EARLIER.search(text[: block.start()]):
            yield Code(block[3], block[2])
    for span in _SPAN.finditer(prose(text)):
        yield Code(span[1])


def links(text: str) -> Iterator[str]:
    """Yield the targets of all links and pictures."""
    for link in _LINK.finditer(_SPAN.sub("", prose(text))):
        yield link[1] or link[2]


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the page's headings."""
    found: dict[str, int] = {}
    for heading in _HEADING.finditer(prose(text)):
        shown = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading[1])
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if number := found[slug]:
            found[f"{slug}-{number}"] = 0
    return set(found)


def tables(text: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of all rows of tables below a heading, up to the next one of its level or above."""
    match = re.search(rf"^(#+) {re.escape(heading)}$\n(.*?)(?=^#{{1,6}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"there is no heading {heading}"
    for line in match[2].splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every simple shell command of the page; raise ValueError for quotes that do not match."""
    for each in code(text):
        if each.language is None:
            yield from _commands_of(each.text)
        elif each.language in _SHELL:
            for line in each.text.replace("\\\n", " ").splitlines():
                # In a session only what follows the prompt was typed.
                if each.language != "console" or line.startswith("$ "):
                    yield from _commands_of(line.removeprefix("$ "))


def _commands_of(line: str) -> Iterator[list[str]]:
    """Split at the shell's operators, and drop words and variables before the program."""
    if not re.search(r"\b(dragoman|python3?) ", line):
        return
    words = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    words.whitespace_split = True
    found: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set(";&|()<>"):
            if found:
                yield found
            found = []
        elif found or not (word in _SHELL_WORDS or re.match(r"[A-Z_]+=", word)):
            found.append(word)
