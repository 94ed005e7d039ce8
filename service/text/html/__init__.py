"""HTML texts: words are translated, tags are kept and placed around the translated words."""
