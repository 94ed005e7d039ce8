"""The translation of texts: text in, events out. It runs in the HTTP process and knows no HTTP."""
