"""What people type in chats instead of whole words, in English and French, and the words."""

from collections.abc import Mapping
from typing import Final

from service.text.readings.rule import Rule, words_rule

_SHORTHAND: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "2day": "today",
        "2moro": "tomorrow",
        "2nite": "tonight",
        "afaik": "as far as I know",
        "asap": "as soon as possible",
        "b4": "before",
        "bc": "because",
        "bday": "birthday",
        "brb": "I'll be right back",
        "btw": "by the way",
        "coz": "because",
        "cuz": "because",
        "dunno": "don't know",
        "Dunno": "I don't know",
        "fyi": "for your information",
        "gimme": "give me",
        "Gotta": "I have to",
        "gr8": "great",
        "gtg": "I have to go",
        "idc": "I don't care",
        "idk": "I don't know",
        "imo": "in my opinion",
        "jk": "just kidding",
        "kinda": "a bit",
        "l8r": "later",
        "lemme": "let me",
        "lol": "haha",
        "msg": "message",
        "ngl": "not gonna lie",
        "np": "no problem",
        "nvm": "never mind",
        "ofc": "of course",
        "omg": "oh my God",
        "omw": "on my way",
        "outta": "out of",
        "pls": "please",
        "plz": "please",
        "ppl": "people",
        "r u": "are you",
        "rn": "right now",
        "sry": "sorry",
        "tbh": "to be honest",
        "thx": "thanks",
        "tmrw": "tomorrow",
        "ttyl": "talk to you later",
        "u": "you",
        "ur": "your",
        "y'all": "you all",
    },
    "fr": {
        "ajd": "aujourd'hui",
        "auj": "aujourd'hui",
        "bcp": "beaucoup",
        "biz": "bises",
        "bjr": "bonjour",
        "bsr": "bonsoir",
        "chuis": "je suis",
        "dispo": "disponible",
        "dsl": "désolé",
        "jpp": "je n'en peux plus",
        "jsp": "je ne sais pas",
        "jtm": "je t'aime",
        "koi": "quoi",
        "mdr": "lol",
        "mtn": "maintenant",
        "pck": "parce que",
        "pcq": "parce que",
        "pk": "pourquoi",
        "pkoi": "pourquoi",
        "ptdr": "lol",
        "qqch": "quelque chose",
        "qqn": "quelqu'un",
        "rdv": "rendez-vous",
        "slt": "salut",
        "stp": "s'il te plaît",
        "svp": "s'il vous plaît",
        "tjrs": "toujours",
        "tjs": "toujours",
        "tkt": "ne t'inquiète pas",
        "tlm": "tout le monde",
    },
}
_IN_CAPITALS: Final = frozenset("asap brb btw fyi idc idk imo ngl nvm omg omw rdv stp svp tbh ttyl".split())
"""Those that are typed in capitals, too. The others are something else then: DSL, PK, NP."""


def shorthand_rule(language: str) -> Rule:
    """Return the rule for a language's shorthand, in lower case and with a capital."""
    words = dict(_SHORTHAND[language])
    capitals = {word.upper(): full for word, full in words.items() if word in _IN_CAPITALS}
    return words_rule(
        words | capitals | {word.capitalize(): full[0].upper() + full[1:] for word, full in words.items()}
    )
