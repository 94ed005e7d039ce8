"""What callers store on this server, as files: glossaries and suggestions."""
