"""Jupyter notebooks (ipynb): JSON whose cells in Markdown are read as such; code and its results are copied."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from service.documents.heading_anchors import linked_anchors
from service.documents.json_files import json_places, load_json
from service.documents.markdown import read_markdown
from service.documents.paragraph import Paragraph, Piece, ReadOptions
from service.documents.passages import Passage, split_passages
from service.errors import InvalidRequest


def read_notebook(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read the cells in Markdown. Raises `InvalidRequest`."""
    notebook = load_json(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise InvalidRequest("file", "it is not a notebook of version 4: it has no cells")
    options = replace(options, anchors=options.anchors | linked_anchors(text))
    for path, start, end in json_places(text):
        if len(path) != 3 or (path[0], path[2]) != ("cells", "source"):
            continue
        cell = notebook["cells"][int(path[1])]
        if cell.get("cell_type") == "markdown" and cell["source"]:
            yield Passage((start, end), pieces=_cell(text[start:end], options))


def _cell(raw: str, options: ReadOptions) -> Iterator[Piece]:
    """Split the source of a cell: a string, or a list with a string for each line."""
    source = json.loads(raw)
    lines = [(start, end) for path, start, end in json_places(raw) if path] or [(0, len(raw))]
    if any(not isinstance(line, str) for line in source):
        raise InvalidRequest("file", "a cell of the notebook is no text")
    gap = raw[lines[0][1] : lines[1][0]] if len(lines) > 1 else ", "
    text = "".join(source)
    body = text.rstrip("\n")
    is_ascii = raw.isascii() and not text.isascii()
    encode = partial(_encoded, joint=f'"{gap}"' if isinstance(source, list) else "", is_ascii=is_ascii)
    yield raw[: lines[0][0] + 1]
    for piece in split_passages(body, read_markdown(body, options)):
        if isinstance(piece, Paragraph):
            piece.encode = encode
            yield piece
        else:
            yield encode(piece)
    yield encode(text[len(body) :]).removesuffix(f'"{gap}"')
    yield raw[lines[-1][1] - 1 :]


def _encoded(text: str, joint: str, is_ascii: bool) -> str:
    return f"\\n{joint}".join(json.dumps(line, ensure_ascii=is_ascii)[1:-1] for line in text.split("\n"))
