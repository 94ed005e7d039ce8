"""Whole words: where the committed part of a translation may end, because no following word can change it."""

import re
from collections.abc import Sequence
from typing import Final

from service.live.policies import Token
from service.text.sentences import is_unspaced, sentence_ends

_CLOSING: Final = frozenset(".!?…:;,)]}»”。！？；：，、）」』।؟،")
"""Marks that end the word before them."""
_HELD: Final = frozenset(".!?…:;»”。！？；：।؟'’([{«“-–—")
"""Last characters of a word that waits for the next one: an end that may move, an elision, an opening bracket."""
_ENDS: Final = re.compile(r"[.!?…؟।][\"'”’»)\]]*\s+\Z|[。！？｡][”’」』）]*\s*\Z")
_NEXT: Final = " Xx"
_WORD: Final = re.compile(r"\S+")
_INITIAL: Final = re.compile(r"(?:^|\W)\w$")


def whole_words(committed: str, tokens: Sequence[Token], count: int) -> int:
    """Return the largest number of tokens, at most `count`, after which the text of all of them may be committed."""
    texts = [token.text for token in tokens]
    for end in range(count, 0, -1):
        last = tokens[end - 1]
        if last.text.strip() and not last.holds_text:
            # A word is short; before it, only the word counts.
            before = committed[-32:] + "".join(texts[max(end - 16, 0) : end])
            if _may_end(before, "".join(texts[end : end + 8])):
                return end
    return 0


def _may_end(before: str, after: str) -> bool:
    """Return True if a text that is followed by `after`, in this hypothesis, is one of whole words."""
    last, following = before[-1], after[:1]
    if last in _HELD:
        return False
    if is_unspaced(last):
        return True
    if last.isdigit() and (following in _CLOSING or following == "" or after.lstrip()[:1].isdigit()):
        return False  # the number may go on
    if following == "." and _INITIAL.search(before):
        return False  # J. or U.S.
    return following == "" or following.isspace() or following in _CLOSING or is_unspaced(following)


def word_starts(text: str) -> list[int]:
    """Return where the words of a text start; in a script without spaces, each letter is one."""
    starts: list[int] = []
    for word in _WORD.finditer(text):
        starts.append(word.start())
        starts += [place for place in range(word.start() + 1, word.end()) if is_unspaced(text[place])]
    return starts


def ends_sentence(text: str, language: str) -> bool:
    """Return True if a sentence ends with the text, whatever follows: behind its mark there is white space already."""
    if _ENDS.search(text) is None:
        return False
    return len(list(sentence_ends(text.rstrip() + _NEXT, language))) > 1
