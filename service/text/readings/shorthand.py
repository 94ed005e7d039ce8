"""The shorthand that people type in chats, in English and French, and the words it stands for."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from service.text.readings.rule import Rule, words_rule

_SHORTHAND: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "2day": "today",
        "2moro": "tomorrow",
        "2nite": "tonight",
        "4u": "for you",
        "afaik": "as far as I know",
        "arent": "aren't",
        "asap": "as soon as possible",
        "b4": "before",
        "bday": "birthday",
        "brb": "I'll be right back",
        "btw": "by the way",
        "cant": "can't",
        "couldnt": "couldn't",
        "cuz": "because",
        "cya": "see you",
        "didnt": "didn't",
        "doesnt": "doesn't",
        "dont": "don't",
        "dunno": "don't know",
        "Dunno": "I don't know",
        "fyi": "for your information",
        "gimme": "give me",
        "Gonna": "I'm going to",
        "Gotta": "I have to",
        "gr8": "great",
        "gtg": "I have to go",
        "hasnt": "hasn't",
        "havent": "haven't",
        "idk": "I don't know",
        "im": "I'm",
        "imo": "in my opinion",
        "isnt": "isn't",
        "ive": "I've",
        "jk": "just kidding",
        "kinda": "a bit",
        "l8r": "later",
        "lemme": "let me",
        "lol": "haha",
        "luv": "love",
        "msg": "message",
        "ngl": "not gonna lie",
        "nite": "night",
        "nvm": "forget it",
        "ofc": "of course",
        "omg": "oh my God",
        "omw": "on my way",
        "outta": "out of",
        "pls": "please",
        "plz": "please",
        "ppl": "people",
        "shouldnt": "shouldn't",
        "sry": "sorry",
        "tbh": "to be honest",
        "thats": "that's",
        "theyre": "they're",
        "tho": "though",
        "thx": "thanks",
        "tmr": "tomorrow",
        "tmrw": "tomorrow",
        "ttyl": "talk to you later",
        "ty": "thank you",
        "ur": "your",
        "wanna": "want to",
        "wasnt": "wasn't",
        "werent": "weren't",
        "wouldnt": "wouldn't",
        "xmas": "Christmas",
        "youre": "you're",
    },
    "fr": {
        "ajd": "aujourd'hui",
        "aprem": "après-midi",
        "auj": "aujourd'hui",
        "bcp": "beaucoup",
        "bjr": "bonjour",
        "bsr": "bonsoir",
        "cdlt": "bien cordialement,",
        "chuis": "je suis",
        "dsl": "désolé",
        "es dispo": "es disponible",
        "est dispo": "est disponible",
        "j'en peux plus": "je n'en peux plus",
        "jms": "jamais",
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
        "suis dispo": "suis disponible",
        "svp": "s'il vous plaît",
        "tjrs": "toujours",
        "tjs": "toujours",
        "tkt": "ne t'inquiète pas",
        "tlm": "tout le monde",
        "êtes dispo": "êtes disponibles",
    },
}
_IN_CAPITALS: Final = frozenset("asap brb btw fyi idk omg omw rdv svp tbh ttyl".split())
"""Those that are typed in capitals, too. The others are something else then: DSL, PK, NP."""
AMBIGUOUS_IN_CAPITALS: Final = frozenset("dsl jk jsp msg stp tlm ty".split())
"""Those that may be something else in a sentence whose letters are all capitals."""


_YOU: Final = re.compile(
    r"\b(?:(?P<before>(?i:are|can|could|did|love|miss|r|see|tell|thank|thx))\s)?"
    r"(?<![\w@#/.'’&-])u(?P<after>\s(?:guys|know|ok|r|there|too|want)\b)?(?![\w'’-])"
)
_ARE: Final = re.compile(
    r"\s(?:a|all|funny|going|gonna|here|home|late|not|right|so|sure|the|too|very|welcome|well|wrong)\b"
)
_NOT_AFTER: Final = {
    "dsl": re.compile(
        r"(?:\b(?:box|connexion|du|en|forfait|la|langage|le|ligne|modem|offre|réseau|un|une)\s|[lL]['’])$"
    ),
    "jsp": re.compile(r"\b(?:fichier|la|le|les|page|pages|un|une)\s$"),
    "cant": re.compile(r"['’]\s$|\b(?:the|a)\s$"),
    "stp": re.compile(r"\b(?:fichier|format|le|protocole|un)\s$"),
    "kinda": re.compile(r"\b[Ww]hat\s$"),
    "msg": re.compile(r"[\"=(]\s?$"),
}
"""What stands before a word that is no shorthand: a connection, a file, code."""
_LONGEST_BEFORE: Final = 12


def shorthand_rules(language: str) -> Sequence[Rule]:
    """Return the rules for a language's shorthand, in lower case and, of words of some length, with a capital."""
    words = dict(_SHORTHAND[language])
    capitals = {word.upper(): full for word, full in words.items() if word in _IN_CAPITALS}
    first = {
        word.capitalize(): full[0].upper() + full[1:] for word, full in words.items() if len(word) > 2 and word != "tho"
    }
    rule = words_rule(words | capitals | first)

    def read(match: re.Match[str]) -> str | None:
        technical = _NOT_AFTER.get(match[0])
        start = match.start()
        if technical is not None and technical.search(match.string, max(start - _LONGEST_BEFORE, 0), start):
            return None
        if match[0] == "ur" and _ARE.match(match.string, match.end()):
            return "you are"
        return rule.read(match)

    rules = [rule._replace(read=read)]
    return [*rules, Rule(_YOU, _you, has_digits=False)] if language == "en" else rules


def _you(match: re.Match[str]) -> str | None:
    """Read u as you beside words that make it one: it may be a letter."""
    before, after = match["before"], match["after"]
    if before is None and after is None:
        return None
    after = " are" if after == " r" else after or ""
    before = {"r": "are", "R": "Are", "thx": "thanks"}.get(before or "", before)
    return f"{before} you{after}" if before else f"you{after}"
