"""Plain English of many lengths, none of it from a training corpus's test set."""

SUBJECTS = ("The old man", "My sister", "A black dog", "Our teacher", "The train", "Nobody", "She", "The red car")
VERBS = ("is waiting for", "was looking at", "does not like", "has forgotten", "will never reach")
OBJECTS = ("the house near the river", "my friends", "a big garden", "the end of this long day")
SENTENCES = [f"{s} {v} {o}." for s in SUBJECTS for v in VERBS for o in OBJECTS]
# Seconds of work, so that a test can act in the middle of it.
# As long as the default limit allows: it must still be running when a test looks.
LONG_TEXT = " ".join(SENTENCES * 7)
