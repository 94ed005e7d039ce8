"""The settings of a server as options of a command, in groups. `service.settings` has what each means."""

import functools
import inspect
import tempfile
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from rich.markup import escape

from service.cli.common import fail
from service.settings import CommandSettings, Settings, default_text, flags

S = TypeVar("S", Settings, CommandSettings)

_LISTS: Final = ("trusted_proxies", "cors_origins", "memory")
"""Settings of several values: separated by commas, or by an option each."""


def _joined(value: Any) -> Any:
    return (",".join(value) or None) if isinstance(value, list) else value


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each setting, in the place of its parameter `settings`.

    Options are strings here: `Settings` checks them, so that a flag and its environment variable have the same errors.
    """

    names = [name for fields in flags().values() for name in fields]

    @functools.wraps(command)
    def with_settings(**values: Any) -> None:
        given = {name: value for name in names if (value := _joined(values.pop(name))) is not None}
        command(settings=load_settings(**given), **values)

    own = [each for each in inspect.signature(command).parameters.values() if each.name != "settings"]
    options = [_option(name, field, group) for group, fields in flags().items() for name, field in fields.items()]
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *options)]
    with_settings.__dict__["__signature__"] = inspect.Signature(keyword_only)
    with_settings.__annotations__ = {each.name: each.annotation for each in keyword_only}
    return with_settings


def load_settings(**given: Any) -> Settings:
    """Build the settings: `given` before the environment, the environment before defaults.

    A wrong value ends the program with its name, and so does a machine without a place for temporary files.
    """
    try:
        tempfile.gettempdir()  # imports of libraries need it, and documents
    except FileNotFoundError as error:
        fail(f"{error.strerror}: set TMPDIR to a directory that this user can write")
    return _loaded(Settings, given)


def load_command_settings(*, offline: bool = False) -> CommandSettings:
    """Load the settings of a command from the environment; a wrong value ends the program with its name."""
    return _loaded(CommandSettings, {"offline": True} if offline else {})


def _loaded(kind: type[S], given: dict[str, Any]) -> S:
    try:
        return kind(**given)
    except ValidationError as error:
        # Defaults that depend on a wrong value are no mistakes of their own.
        mistakes = [each for each in error.errors() if each["type"] != "default_factory_not_called"]
        problems = [": ".join(filter(None, (".".join(map(str, each["loc"])), _in_words(each)))) for each in mistakes]
        fail("; ".join(problems))


def _in_words(error: ErrorDetails) -> str:
    """Describe what a setting must be; Pydantic's own message for kinds of errors without words of ours."""
    kind = error["type"]
    field = Settings.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    if kind == "literal_error":
        return f"must be {error['ctx']['expected'].replace(chr(39), '')}"
    if field is None or not kind.startswith(("int_", "float_", "greater_", "less_")):
        return error["msg"]
    whole = field.annotation is int or int in typing.get_args(field.annotation)
    return f"must be a {'whole ' if whole else ''}number{_bounds(field)}"


def _bounds(field: FieldInfo) -> str:
    """Describe the limits of a number: " from 0 to 65535"."""
    names = ("ge", "gt", "le")
    limits = {name: getattr(each, name) for each in field.metadata for name in names if hasattr(each, name)}
    if "gt" in limits:
        return f" above {limits['gt']}"
    if "ge" not in limits:
        return ""
    return f" from {limits['ge']} to {limits['le']}" if "le" in limits else f" of at least {limits['ge']}"


def _option(name: str, field: FieldInfo, group: str) -> inspect.Parameter:
    """Build the option of one setting, without a default of its own: only options that the user gives are passed on."""
    default = default_text(field)
    flag = f"--{name.replace('_', '-')}"
    is_switch = field.annotation is bool
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if is_switch else flag,
        # Rich takes what is in brackets for markup.
        help=escape(f"{field.description} [default: {default}]" if default else f"{field.description}"),
        rich_help_panel=group,
        show_default=False,
        metavar=None if is_switch else _metavar(field.annotation),
    )
    kind = bool | None if is_switch else list[str] | None if name in _LISTS else str | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])


def _metavar(annotation: Any) -> str:
    """Name the kind of value in the style of the other commands: <float>, <path>, <a|b>.

    A whole number is N: beside the longest option, 80 columns have no room for <int>.
    """
    if typing.get_origin(annotation) is Literal:
        return f"<{'|'.join(typing.get_args(annotation))}>"
    if isinstance(annotation, types.UnionType):
        [annotation, *_] = typing.get_args(annotation)
    return {int: "N", float: "<float>", Path: "<path>"}.get(annotation, "<str>")
