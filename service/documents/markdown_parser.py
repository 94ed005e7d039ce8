"""A parser of Markdown that says where things stand, with the constructs of mkdocs, Docusaurus, Hugo and VitePress.

markdown-it parses. Here are only its extensions: blocks in the style of `!!! note`, inline marks that are copied, and a
note of where each inline token stands in its text.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Final

import regex
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

DIRECTIVE: Final = "directive"
"""The type of the token for the first line of a block such as `!!! note "Title"` or `:::tip Title`."""
_DIRECTIVE: Final = regex.compile(r'(?:!!!|\?\?\?\+?)[ \t]+[\w"-]|===[!+]*[ \t]+"')
COMPONENT: Final = "component"
"""The type of the tokens for the tags of a component whose body is Markdown, as in MDX."""
COMPONENT_TAG: Final = regex.compile(
    r"""<(?P<end>/?)(?P<name>[A-Z][\w.]*+)(?:\s(?:[^<>"'{}]++|"[^"]*+"|'[^']*+'|\{[^{}]*+\})*+)?/?>"""
)
_LINE_END: Final = regex.compile(r"[ \t\r]*+$", regex.M)
_COPIED: Final = regex.compile(
    r"\$\$?(?:[^\s$]|[^\s$][^$\n]{0,300}[^\s$])\$\$?(?!\d)"  # formulas
    r"|\\\((?:[^\n]{1,300}?)\\\)|\\\[(?:[^\n]{1,300}?)\\\]"
    r"|\{\{[^\n]{0,300}?\}\}|\{%[^\n]{0,300}?%\}|\{[:#.][^{}\n]{0,200}\}"  # templates, shortcodes, attributes
    r"|\[\^[^\]\s]{1,100}\]"  # footnotes
    r"|!\[\[[^\[\]\n]{1,200}\]\]|\[\[[^\[\]|\n]{1,200}\]\]"  # wiki links
    r"|\+\+[\w+\" -]{1,80}\+\+|:[a-z0-9_+-]{2,60}:(?!\w)"  # keys, icons
    r"|<(?P<name>code|kbd|samp|var)\b[^<>]{0,200}>[^<\n]{0,300}</(?P=name)>(?: ?\+ ?<kbd>[^<\n]{0,300}</kbd>)*+"
    r"|(?:(?:\^[^\s^]{1,30}\^|(?<=\w)~[^\s~]{1,30}~)(?:[A-Za-z0-9]{1,4}(?!\w))?)++"  # raised and lowered characters
)
_BASE: Final = regex.compile(r"(?<![\w.,])(?:[A-Z][a-z]?|[b-z]|[ckdm]m|\d[\d.,]*+)$")
"""The `x` of `x^2^`, to which raised or lowered characters belong. Behind a longer word they mark a note."""
_MARKED: Final = regex.compile(r"(?P<open>==)(?=[^\s=])(?P<text>[^=\n]{1,300})(?<=\S)(?P<close>==)")
_LINK: Final = regex.compile(
    r"(?P<open>\[\[[^\[\]|\n]{1,200}\|)(?P<text>[^\[\]\n]{1,200})(?P<close>\]\])"  # of a wiki
    r"|(?P<open>\[)(?P<text>[^\[\]\n]{1,300})(?P<close>\]\(\{\{[<%][^\n]{0,300}?[>%]\}\}[^()\n]{0,100}\))"  # of Hugo
)


@cache
def parser() -> MarkdownIt:
    """Return the parser. Its inline tokens have in `meta` their `span`, and links and images the end of their label."""
    found = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    footnote_plugin(found, inline=False, move_to_end=False)
    deflist_plugin(found)
    dollarmath_plugin(found)
    container_plugin(found, DIRECTIVE, ":", validate=lambda parameters, *_: bool(parameters.strip()))
    found.disable(["math_inline", "math_inline_double", "footnote_ref"], ignoreInvalid=True)
    found.block.ruler.before("fence", DIRECTIVE, _directive, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    found.block.ruler.before("html_block", COMPONENT, _component)
    found.core.ruler.enableOnly(["normalize", "block"])
    found.inline.ruler.before("escape", "copied", _copied)
    for rule in found.inline.ruler.__rules__:
        if rule.name != "text":
            rule.fn = partial(_noting_place, rule=rule.fn, has_label=rule.name in ("link", "image"))
    return found


def _directive(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a block whose first line has a title, and whose other lines are indented."""
    position = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or _DIRECTIVE.match(state.src, position, state.eMarks[start]) is None:
        return False
    if silent:
        return True
    indent, last = state.sCount[start] + 4, start + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= indent):
        last += 1
    token = state.push(f"container_{DIRECTIVE}_open", "", 1)
    token.map = [start, last]
    outside = state.blkIndent, state.lineMax
    state.blkIndent, state.lineMax = indent, last
    state.md.block.tokenize(state, start + 1, last)
    state.blkIndent, state.lineMax = outside
    state.line = last
    state.push(f"container_{DIRECTIVE}_close", "", -1)
    return True


def _component(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a component whose tags have lines of their own. Its body may be indented, and needs no blank lines."""
    if COMPONENT not in state.env:
        state.env[COMPONENT] = _components(state)
    first, last = state.env[COMPONENT].get(start, (end, end))
    if last >= end or state.is_code_block(start):
        return False
    if silent:
        return True
    state.push(f"{COMPONENT}_open", "", 1).map = [start, first]
    outside = state.blkIndent, state.lineMax
    indents = (state.sCount[line] for line in range(first, last) if not state.isEmpty(line))
    state.blkIndent, state.lineMax = min(indents, default=0), last
    state.md.block.tokenize(state, first, last)
    state.blkIndent, state.lineMax = outside
    state.push(f"{COMPONENT}_close", "", -1).map = [last, last + 1]
    state.line = last + 1
    return True


def _components(state: StateBlock) -> dict[int, tuple[int, int]]:
    """Return by the line of each component's beginning the lines where its body begins and ends."""
    found: dict[int, tuple[int, int]] = {}
    opened: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for line, (begin, indent) in enumerate(zip(state.bMarks, state.tShift, strict=True)):
        tag = COMPONENT_TAG.match(state.src, begin + indent)
        if tag is None or not _LINE_END.match(state.src, tag.end()):
            continue
        if not tag["end"] and not tag[0].endswith("/>"):
            opened[tag["name"]].append((line, line + tag[0].count("\n") + 1))
        elif tag["end"] and opened[tag["name"]]:
            start, first = opened[tag["name"]].pop()
            found[start] = first, line
    return found


def _noting_place(
    state: StateInline, silent: bool, *, rule: Callable[[StateInline, bool], bool], has_label: bool
) -> bool:
    """Run an inline rule, and note where the tokens that it pushes stand."""
    start, before = state.pos, len(state.tokens)
    opening = start + (state.src[start] == "!")
    label_end = -1
    if has_label and not silent and state.src[opening : opening + 1] == "[":
        label_end = state.md.helpers.parseLinkLabel(state, opening, not opening > start)
        state.pos = start
    if not rule(state, silent):
        return False
    if not silent:
        for token in state.tokens[before:]:
            token.meta.setdefault("span", (start, state.pos))
            if token.type in ("link_close", "link_open", "image"):
                token.meta.setdefault("label_end", label_end)
    return True


def _copied(state: StateInline, silent: bool) -> bool:
    """Parse what other programs read: formulas, templates, icons; and marks that markdown-it does not know."""
    start = state.pos
    if (found := _COPIED.match(state.src, start, state.posMax)) is not None:
        if not silent:
            base = _BASE.search(state.pending) if found[0][0] in "^~" else None
            if base is not None:
                state.pending, start = state.pending[: base.start()], start - len(base[0])
            token = state.push("copied", "", 0)
            token.content, token.meta["span"] = state.src[start : found.end()], (start, found.end())
        state.pos = found.end()
        return True
    found = _MARKED.match(state.src, start, state.posMax) or _LINK.match(state.src, start, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("mark_open", "", 1).markup = found["open"]
        end, state.pos, state.posMax = state.posMax, found.start("text"), found.end("text")
        state.md.inline.tokenize(state)
        state.posMax = end
        state.push("mark_close", "", -1).markup = found["close"]
    state.pos = found.end()
    return True
