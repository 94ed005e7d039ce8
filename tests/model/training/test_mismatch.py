"""Every sign of a bad pair has a pair that it drops, and a near one that it keeps."""

import pytest

from model.training.mismatch import find_mismatch

_CASES = [
    (
        "lengths differ",
        ("I do not know where he went yesterday evening after work.", "Je ne sais pas."),
        ("I do not know where he went yesterday evening.", "Je ne sais pas où il est allé hier soir."),
    ),
    ("lengths differ", ("Yes", "Oui, bien sûr que je le ferai demain matin"), ("Yes", "Oui, bien sûr")),
    ("numbers differ", ("In 1984 it fell.", "En 1985 il est tombé."), ("In 1984 it fell.", "En 1984 il est tombé.")),
    ("numbers differ", ("It cost 12,500.", "Il coûtait 12 600."), ("It cost 12,500.", "Il coûtait 12 500.")),
    ("numbers differ", ("The 2000 cats ate.", "Les chats mangent."), ("The 12 cats ate.", "Douze chats mangent.")),
    ("numbers differ", ("Page 15 of 20", "Page 15 sur 21"), ("At 10 p.m. it rained.", "À 22 h il pleuvait.")),
    ("question on one side", ("You know?", "Tu sais."), ("You know?", "Tu sais ?")),
    ("ends differ", ("He left:", "Il partit."), ("He left.”", "Il partit !")),
    ("ends differ", ("He left.", "Il partit"), ("“He left.”", "« Il partit. »")),
    ("ends differ", ("one, two,", "un, deux"), ("one; two;", "un, deux,")),
    ("markup", ("the <b>end", "la fin"), ("the end > all", "la fin > tout")),
    ("markup", ("* a point", "* un point"), ("a point *", "un point *")),
    ("markup", ("a &amp; b", "a et b"), ("a & b", "a et b")),
    ("placeholders differ", ("%s left", "il partit"), ("%s left", "%s est parti")),
    ("placeholders differ", ("{name} left", "{nom} est parti"), ("100 % of it", "100 % du lot")),
    ("holes", ("the cat ( ) sat", "le chat assis"), ("the cat (red) sat", "le chat (roux) assis")),
    ("holes", ("He said « ».", "Il dit « »."), ("He said « yes ».", "Il dit « oui ».")),
    ("holes", ("the end , then", "la fin, puis"), ("He waits...", "Il attend...")),
    (
        "nearly a copy",
        ("the national programme report was long", "national programme report long"),
        ("the national programme report of the region", "le rapport du programme national de cette région"),
    ),
    ("capitals on one side", ("THE END OF IT", "La fin de cela"), ("THE END OF IT", "LA FIN DE CELA")),
    ("capitals on one side", ("THE HOUSES", "les maisons"), ("NATO", "l'Otan")),
    ("broken characters", ("the summer", "l'Ã©tÃ©"), ("the summer", "l'été")),
    ("broken characters", ("a \ufffd cat", "un chat"), ("a © cat", "un © chat")),
    ("broken characters", ("a \ue000 cat", "un chat"), ("a ♥ cat", "un ♥ chat")),
    ("lost letters", ("Is the summer hot?", "L'ét?est chaud ?"), ("Is the summer hot?", "L'été est chaud ?")),
    ("lost letters", ("the school is closed", "l école est fermée"), ("the school is closed", "l'école est fermée")),
]  # fmt: skip


@pytest.mark.parametrize(("sign", "bad", "good"), _CASES)
def test_a_bad_pair_is_found_and_a_near_one_is_kept(sign: str, bad: tuple[str, str], good: tuple[str, str]) -> None:
    assert find_mismatch(*bad) == sign
    assert find_mismatch(*good) == ""
