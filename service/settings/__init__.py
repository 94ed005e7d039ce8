"""Deployment settings: flags win over `DRAGOMAN_...` variables, variables over defaults.

No other package reads the environment. `fields` has each setting with its group, its help and its default; `values` has
the types of their values.
"""

from service.settings.fields import (
    EMBEDDED_MODEL,
    AccessSettings,
    CommandSettings,
    Group,
    Settings,
    default_text,
    flags,
    unknown_variables,
)
from service.settings.values import Networks, UnusableSettingError

__all__ = [
    "EMBEDDED_MODEL",
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
