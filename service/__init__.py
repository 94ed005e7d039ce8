"""The translation server: engines in their own processes behind an async HTTP application."""
