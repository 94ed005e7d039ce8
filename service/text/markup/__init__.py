"""Inline markup, of HTML, XML and plain text: tokens, runs with marks for tags, and tags placed in a translation."""
