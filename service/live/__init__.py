"""Translation of text that still grows: sessions, and the policies by which their translation is committed."""
