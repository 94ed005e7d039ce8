"""How Dragoman is run; the Python in it is for Ray."""
