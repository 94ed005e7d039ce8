"""The routes of DeepL, for its clients."""
