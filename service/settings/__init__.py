"""Deployment settings: flags win over `DRAGOMAN_...` variables, variables over defaults.

No other package reads the environment. `fields` and `access` have each setting with its group, its help and its
default; `values` has the types of their values, and `retired` the settings that are gone.
"""

from service.settings.access import AccessSettings
from service.settings.fields import (
    EMBEDDED_MODEL,
    EMBEDDED_MODELS,
    CommandSettings,
    Settings,
    flags,
    unknown_variables,
)
from service.settings.groups import Group, default_text
from service.settings.values import Networks, UnusableSettingError

__all__ = [
    "EMBEDDED_MODEL",
    "EMBEDDED_MODELS",
    "AccessSettings",
    "CommandSettings",
    "Group",
    "Networks",
    "Settings",
    "UnusableSettingError",
    "default_text",
    "flags",
    "unknown_variables",
]
