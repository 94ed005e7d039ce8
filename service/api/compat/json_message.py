"""Messages in JSON: subtitle tools send an array of lines to a chat, and read one from its answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import msgspec

_FIELDS: Final = ("line", "text")
"""Names of the translated field of an object; all others come back unchanged."""


class JsonMessage(NamedTuple):
    """An array of strings, or of objects with a `line` or a `text`."""

    elements: Sequence[Any]
    wrapper: str | None
    """The field for the answer's array, by the schema of `response_format`."""

    @classmethod
    def parse(cls, message: str, response_format: object) -> Self | None:
        """Parse a message; None for a message without such an array."""
        if not message.lstrip().startswith("["):
            return None
        try:
            elements = msgspec.json.decode(message)
        except (msgspec.DecodeError, RecursionError):
            return None
        if not elements or not all(isinstance(each, str) or _field(each) for each in elements):
            return None
        return cls(elements, _wrapper(response_format))

    def texts(self) -> list[str]:
        """Return the texts to translate, one for each element."""
        return [each if isinstance(each, str) else each[_field(each)] for each in self.elements]

    def answer(self, translations: Sequence[str]) -> str:
        """Return the array with its texts translated."""
        pairs = zip(self.elements, translations, strict=True)
        filled = [text if isinstance(each, str) else {**each, _field(each): text} for each, text in pairs]
        return msgspec.json.encode(filled if self.wrapper is None else {self.wrapper: filled}).decode()


def _field(element: object) -> str:
    """Return the name of the field with the text; "" without such a field."""
    if not isinstance(element, dict):
        return ""
    return next((name for name in _FIELDS if isinstance(element.get(name), str)), "")


def _wrapper(response_format: object) -> str | None:
    """Return the only array of the object that a JSON schema describes."""
    schema: object = response_format
    for name in ("json_schema", "schema", "properties"):
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    properties = schema if isinstance(schema, Mapping) else {}
    arrays = [name for name, each in properties.items() if isinstance(each, Mapping) and each.get("type") == "array"]
    return arrays[0] if len(arrays) == 1 else None
