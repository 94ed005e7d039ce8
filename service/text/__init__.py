"""Texts and segments: sentences, glossaries, placeholders, numbers, languages. Knows no models and no HTTP."""
