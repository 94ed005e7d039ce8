"""The routes of DeepL, for clients that are written for it."""
