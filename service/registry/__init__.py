"""The models of a server: which there are, what each can translate, and by which of them a text goes."""
