"""Checks of what a page of documentation names: each yields the names of what does not exist."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families
from typer.main import get_command

from service.cli.main import app as cli
from service.observability.metrics import Metrics
from service.server.app import create_app
from service.settings import CommandSettings, Settings
from tests import markdown

ROOT: Final = Path(__file__).parent.parent
OTHER_PROGRAMS: Final = frozenset("docker git kubectl locust pip pytest .venv/bin/pytest".split())


def broken_links(page: Path, text: str) -> Iterator[str]:
    for link in markdown.links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        content = target.read_text(encoding="utf-8") if path.endswith(".md") and target.exists() else text
        if not target.exists() or (anchor and anchor not in markdown.anchors(content)):
            yield link


def wrong_commands(text: str) -> Iterator[str]:
    for words in markdown.commands(text):
        program = Path(words[0]).name
        if program == "dragoman":
            yield from wrong_dragoman(words[1:])
        elif "-m" in words[:-1] and program in ("python", "python3"):
            module, rest = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
            if module == "service":
                yield from wrong_dragoman(rest)
            elif module.partition(".")[0] in ("model", "loadtest", "deploy", "tests"):
                yield from wrong_module(module, rest)


def wrong_dragoman(words: list[str]) -> Iterator[str]:
    command: Any = get_command(cli)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        if words[0] not in command.commands:
            if words[0].strip(".…"):  # `dragoman ...` stands for any of its commands
                yield f"dragoman {words[0]}"
            return
        command, words = command.commands[words[0]], words[1:]
    yield from unknown(words, options_of(command) | {"--help"})


def wrong_module(module: str, words: list[str]) -> Iterator[str]:
    if not source_files(module):
        yield f"python -m {module}"
        return
    own, rest = split_at(words, "--")
    yield from unknown(own, options_of_module(module))
    # The load tools hand on what follows to the server that they start.
    yield from unknown(rest, options_of(get_command(cli), "serve"))


def split_at(words: list[str], mark: str) -> tuple[list[str], list[str]]:
    place = words.index(mark) if mark in words else len(words)
    return words[:place], words[place + 1 :]


def unknown(words: Iterable[str], known: set[str]) -> Iterator[str]:
    for word in words:
        if re.match(r"--?[a-z]", word) and (name := word.partition("=")[0]) not in known:
            yield name


def options_of(command: Any, name: str | None = None) -> set[str]:
    if name is not None:
        command = command.commands[name]
    own = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return own.union(*(options_of(each) for each in getattr(command, "commands", {}).values()))


def source_files(module: str) -> list[Path]:
    """Return the file of a module, the `__main__` of a package, or nothing."""
    path = ROOT / module.replace(".", "/")
    return [each for each in (path.with_suffix(".py"), path / "__main__.py") if each.exists()]


@cache
def options_of_module(module: str) -> set[str]:
    """Read options from the source, since imports would need libraries: parameters of the module and of its imports."""
    found: set[str] = set()
    trees = [parsed(file) for file in source_files(module)]
    trees += [parsed(file) for name in imports(trees) for file in source_files(name)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.arg):
            name = node.arg.replace("_", "-")
            found |= {f"--{name}", f"--no-{name}"} if "bool" in ast.dump(node) else {f"--{name}"}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("-"):
            found.update(re.findall(r"--?[a-z][a-z-]*", node.value))
    return found


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(trees: Iterable[ast.Module]) -> list[str]:
    """Return the imported modules of load tools, whether a module is imported or names from it."""
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    names = (name for node in nodes for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names)))
    return [name for name in names if name and name.startswith(("loadtest.", "tests.deploy."))]


@cache
def all_options() -> set[str]:
    files = [*ROOT.glob("loadtest/**/*.py"), *ROOT.glob("deploy/*.py"), *ROOT.glob("tests/deploy/*.py")]
    modules = [str(file.relative_to(ROOT).with_suffix("")).replace("/", ".") for file in files]
    return options_of(get_command(cli)).union(*map(options_of_module, modules), {"--help", "--slow"})


def unknown_options(text: str) -> Iterator[str]:
    """Check spans of code, except those of other programs; `wrong_commands` checks commands more exactly."""
    for each in markdown.code(text):
        if each.language is None and each.text.partition(" ")[0] not in OTHER_PROGRAMS:
            yield from (option for option in unknown(each.text.split(), all_options()) if option.startswith("--"))


@cache
def variables() -> set[str]:
    fields = {name.upper() for settings in (Settings, CommandSettings) for name in settings.model_fields}
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return {f"DRAGOMAN_{name}" for name in fields} | set(re.findall(r"DRAGOMAN_[A-Z_]+", compose))


def unknown_variables(text: str) -> Iterator[str]:
    yield from sorted(set(re.findall(r"DRAGOMAN_[A-Z][A-Z_]*", text)) - variables())


@cache
def metrics() -> set[str]:
    exposed = text_string_to_metric_families(Metrics("0", "int8").exposition().decode())
    families = {each.name + ("_total" if each.type == "counter" else "") for each in exposed}
    return {each for each in families if each.startswith("dragoman_") and not each.endswith("_created")}


def unknown_metrics(text: str) -> Iterator[str]:
    client = (ROOT / "service/client/pyproject.toml").read_text(encoding="utf-8")
    module = re.search(r'^"" = "(\w+)"', client, re.MULTILINE)
    assert module is not None
    yield from sorted(set(re.findall(r"\bdragoman_[a-z_]*[a-z]", text)) - metrics() - {module[1]})


def missing_files(text: str) -> Iterator[str]:
    """Check paths in code, from the root or from `service/`, whose first folder exists."""
    for each in markdown.code(text):
        if each.language is None and re.fullmatch(r"[\w.-]+(/[\w.*-]+)*/?", each.text) and "/" in each.text:
            first = each.text.partition("/")[0]
            homes = [home for home in (ROOT, ROOT / "service") if (home / first).is_dir()]
            if homes and not any([*home.glob(each.text.rstrip("/"))] for home in homes):
                yield each.text


@cache
def routes() -> set[str]:
    app = create_app(Settings.model_construct(**Settings().model_dump()))
    paths = ((method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods)
    return {f"{method} {path}" for method, path in paths} | {"GET /"}


def unknown_routes(text: str) -> Iterator[str]:
    for each in markdown.code(text):
        route = re.fullmatch(r"((?:GET|POST|PUT|DELETE) /[\w/{}]*)(\?.*)?", each.text)
        if each.language is None and route is not None and route[1] not in routes():
            yield route[1]


CHECKS: Final[dict[str, Callable[[str], Iterator[str]]]] = {
    "commands": wrong_commands,
    "options": unknown_options,
    "variables": unknown_variables,
    "metrics": unknown_metrics,
    "files": missing_files,
    "routes": unknown_routes,
}
