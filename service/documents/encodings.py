"""Encodings that a document may declare: those of the Web and of older programs, and no other codec of Python."""

import codecs
from typing import Final

import regex

from service.errors import InvalidRequest

_KNOWN: Final = regex.compile(
    r"ascii|utf-(?:8(?:-sig)?|16(?:-[lb]e)?|32(?:-[lb]e)?)|iso8859-[0-9]+|latin-?1|cp(?:125[0-8]|437|8[0-9]{2}|932|949|950)"
    r"|koi8-[rut]|mac-[a-z]+|gb2312|gbk|gb18030|big5(?:hkscs)?|shift_jis|euc_(?:jp|kr)|iso2022_(?:jp|kr)|tis-620"
)
"""The names that Python gives to them."""
_SURROGATE: Final = regex.compile("[\ud800-\udfff]")


def decode_as(data: bytes, encoding: str, what: str) -> tuple[str, str]:
    """Decode bytes as the encoding that `what` declares. Returns the text and the encoding. Raises `InvalidRequest`."""
    try:
        if _KNOWN.fullmatch(codecs.lookup(encoding).name) is None:
            raise LookupError
        text = data.decode(encoding)
    except (UnicodeError, LookupError):
        raise InvalidRequest("file", f"{what} is not {encoding.upper()}, as it claims") from None
    if _SURROGATE.search(text):
        raise InvalidRequest("file", f"{what} has characters that do not exist")
    return text, encoding
