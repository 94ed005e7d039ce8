"""The models of a server: which are served, what each translates, and the route of each text through them."""
