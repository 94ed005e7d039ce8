"""The codes of models as BCP 47's: none is lost, and none is no code."""

import pytest

from model.formats.multilingual import codes_of


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["eng", "fra"], ["en", "fr"]),
        (["en_XX", "pt_BR", "zh_CN"], ["en", "pt", "zh"]),
        (["zho_Hans", "zho_Hant", "eng_Latn"], ["zh-Hans", "zh-Hant", "en"]),
        (["pes_Arab", "prs_Arab"], ["fa", "prs"]),
        (["aka_Latn", "twi_Latn"], ["aka", "twi"]),
        (["ajp_Arab", "apc_Arab", "arb_Arab"], ["ajp", "apc", "ar"]),
        (["ROMANCE", "en"], ["en"]),
        (["itc_celtic", "celtic", ""], ["itc"]),
    ],
)
def test_codes(names: list[str], codes: list[str]) -> None:
    assert list(codes_of(names)) == codes
