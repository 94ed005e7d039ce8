"""Everyday English sentences of 3 to 40 words for load: the lines of sentences.txt."""

from pathlib import Path
from typing import Final

LANGUAGES: Final = {"source": "en", "target": "fr"}
"""Languages between which the embedded model translates the sentences."""

SENTENCES: Final = tuple(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())
