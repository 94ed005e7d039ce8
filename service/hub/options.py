"""Options of the hub, as the settings give them. Hugging Face's own come from its `HF_...` variables."""

from dataclasses import dataclass
from typing import Final

ARGOS_INDEX: Final = "https://raw.githubusercontent.com/argosopentech/argospm-index/main/index.json"
FIREFOX_INDEX: Final = (
    "https://firefox.settings.services.mozilla.com/v1/buckets/main/collections/translations-models-v2/records"
)


@dataclass(frozen=True)
class HubOptions:
    """Addresses of the indexes, and whether the network may be used at all."""

    offline: bool = False
    argos_index: str = ARGOS_INDEX
    firefox_index: str = FIREFOX_INDEX
