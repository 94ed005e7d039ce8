"""LibreTranslate with one Argos package and nothing from the network: run by a Python that has it installed.

    python libretranslate_server.py PORT DIRECTORY

DIRECTORY has the unpacked package. It would download models at its start, and another to find sentences with: a text is
one sentence here.
"""

import os
import sys
from typing import Any


class WholeText:
    """A replacement for Argos Translate's splitters that splits nothing."""

    def __init__(self, package: Any) -> None: ...

    def split_sentences(self, text: str) -> list[str]:
        return [text]


def main() -> None:
    port, packages = sys.argv[1:]
    os.environ["ARGOS_PACKAGES_DIR"] = packages
    from argostranslate import translate
    from libretranslate import init

    translate.MiniSBDSentencizer = WholeText
    init.boot = lambda *_, **__: None
    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
    from libretranslate.main import main as serve

    serve()


if __name__ == "__main__":
    main()
