"""Translation: text in, events out. Runs in the HTTP process and knows no HTTP."""
