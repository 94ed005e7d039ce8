"""What people type in chats instead of whole words, in English and French, and the words."""

import re
from collections.abc import Mapping, Sequence
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
        "nvm": "never mind",
        "ofc": "of course",
        "omg": "oh my God",
        "omw": "on my way",
        "outta": "out of",
        "pls": "please",
        "plz": "please",
        "ppl": "people",
        "rn": "right now",
        "sry": "sorry",
        "tbh": "to be honest",
        "thx": "thanks",
        "tmrw": "tomorrow",
        "ttyl": "talk to you later",
        "ur": "your",
        "y'all": "you all",
    },
    "fr": {
        "ajd": "aujourd'hui",
        "auj": "aujourd'hui",
        "bcp": "beaucoup",
        "bjr": "bonjour",
        "bsr": "bonsoir",
        "chuis": "je suis",
        "dispo": "disponible",
        "dsl": "désolé",
        "jpp": "je n'en peux plus",
        "jsp": "je ne sais pas",
        "jtm": "je t'aime",
        "mdr": "lol",
        "mtn": "maintenant",
        "pck": "parce que",
        "pcq": "parce que",
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
_IN_CAPITALS: Final = frozenset("asap brb btw fyi idc idk ngl nvm omg omw rdv stp svp tbh ttyl".split())
"""Those that are typed in capitals, too. The others are something else then: DSL, PK, NP."""


_YOU: Final = re.compile(
    r"\b(?:(?P<before>(?i:are|can|could|did|do|for|give|if|love|miss|r|see|tell|thank|thx|to|will|with|would))\s)?"
    r"(?<![\w@#/.'’&-])u(?P<after>\s(?:are|can|do|guys|have|know|need|ok|r|should|there|too|want|were|will)\b)?(?![\w'’-])"
)
_NO_APOLOGY: Final = re.compile(r"(?:\b(?:abonnement|accès|box|connexion|ligne|modem|réseau)\s|[lL]['’])$")


def shorthand_rules(language: str) -> Sequence[Rule]:
    """Return the rules for a language's shorthand, in lower case and, of words of some length, with a capital."""
    words = dict(_SHORTHAND[language])
    capitals = {word.upper(): full for word, full in words.items() if word in _IN_CAPITALS}
    first = {word.capitalize(): full[0].upper() + full[1:] for word, full in words.items() if len(word) > 2}
    rule = words_rule(words | capitals | first)
    if language == "en":
        return rule, Rule(_YOU, _you, has_digits=False)
    return (rule._replace(read=lambda match: None if _is_technical(match) else rule.read(match)),)


def _you(match: re.Match[str]) -> str | None:
    """Read u as you beside words that make it one: it may be a letter."""
    before, after = match["before"], match["after"]
    if before is None and after is None:
        return None
    after = " are" if after == " r" else after or ""
    before = {"r": "are", "R": "Are", "thx": "thanks"}.get(before or "", before)
    return f"{before} you{after}" if before else f"you{after}"


def _is_technical(match: re.Match[str]) -> bool:
    """Return True for the dsl that is a connection, not an apology."""
    return match[0] == "dsl" and _NO_APOLOGY.search(match.string, max(match.start() - 20, 0), match.start()) is not None
