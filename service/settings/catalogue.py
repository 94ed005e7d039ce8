"""The settings by group, and the variables that are none."""

import difflib
import os
from collections.abc import Mapping
from typing import Final

from pydantic.fields import FieldInfo

from service.settings.fields import PREFIX, CommandSettings, Settings
from service.settings.groups import Group

_OF_COMPOSE: Final = frozenset({"BIND", "STOP_SECONDS"})
"""Variables of the same `.env` file that docker-compose.yml itself uses."""


def flags() -> Mapping[Group, Mapping[str, FieldInfo]]:
    """Return the settings that are flags, by group in the order of the help."""
    found: dict[Group, dict[str, FieldInfo]] = {group: {} for group in Group}
    for name, field in Settings.model_fields.items():
        if isinstance(field.json_schema_extra, dict):  # the others are variables only
            found[Group(str(field.json_schema_extra["group"]))][name] = field
    return found


def unknown_variables() -> list[str]:
    """List a problem for each `DRAGOMAN_...` variable that is no setting.

    The server starts all the same: the variable may belong to another version, or to another program.
    """
    fields = [name.upper() for name in Settings.model_fields]
    known = {*fields, *map(str.upper, CommandSettings.model_fields), *_OF_COMPOSE}
    given = (name.upper().removeprefix(PREFIX) for name in sorted(os.environ) if name.upper().startswith(PREFIX))
    problems = []
    for name in given:
        if name not in known:
            meant = "".join(f"; is it {PREFIX}{each}?" for each in difflib.get_close_matches(name, fields, n=1))
            problems.append(f"{PREFIX}{name} is no setting{meant}")
    return problems
