"""The declaration of a setting: a field with its group and the text of its default."""

from enum import StrEnum
from typing import Any, Final

from pydantic import Field
from pydantic.fields import FieldInfo

_GROUPED_FROM: Final = 10_000
"""Least number that is shown with commas; a port has none."""


class Group(StrEnum):
    """The headings of the help and of the documentation, in their order."""

    ADDRESS = "Address"
    MODELS = "Models and glossaries"
    ENGINES = "Engines"
    LIMITS = "Limits of requests"
    DOCUMENTS = "Documents"
    CONNECTIONS = "Connections"
    ACCESS = "Access"
    ANONYMOUS = "Access without a key"
    LOGS = "Logs"
    # In a group of their own: their second names (`--no-traces`) would narrow the columns of others.
    SWITCHES = "Switches"


def setting(group: Group, *, default_text: str = "", **field: Any) -> Any:
    """Declare a setting; `default_text` describes a default that depends on the machine or says little by itself."""
    return Field(json_schema_extra={"group": group, "default_text": default_text}, **field)


def default_text(field: FieldInfo) -> str:
    """Describe the default of a setting; an empty string if there is none to show."""
    assert isinstance(field.json_schema_extra, dict)
    if text := field.json_schema_extra["default_text"]:
        return str(text)
    match field.default:
        case None | ():
            return ""
        case bool(is_on):
            return "on" if is_on else "off"
        case int(number) if number >= _GROUPED_FROM:
            return f"{number:,}"
        case float(number):
            return f"{number:g}"
        case default:
            return str(default)
