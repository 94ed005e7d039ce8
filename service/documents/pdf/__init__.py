"""PDF to text in reading order, and to docx and Markdown."""
