"""HTML texts: their words are translated, their tags are kept and follow the words."""
