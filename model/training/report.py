"""Reports of a run: a progress bar for people, `log.csv` for plots, and the plot."""

import contextlib
import csv
import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

logger = logging.getLogger(__name__)

COLUMNS: Final = ("step", "hours", "tokens", "loss", "learning_rate", "tokens_per_second", "validation_loss")


class MissingExtraError(RuntimeError):
    """A requested part needs a package that only `dragoman[train]` installs."""


class Report(NamedTuple):
    """Loss, learning rate and tokens of a run's last steps, and its totals."""

    step: int
    loss: float
    """Nats a target token, without label smoothing."""
    learning_rate: float
    tokens: int
    """Source and target tokens of these steps, without padding."""
    all_tokens: int
    hours: float
    last_step: int | None = None
    """The step at which the run ends, at its speed so far."""


class RunLog:
    """The log of a run, which takes reports and validations; a context manager.

    `log.csv` in `directory` has a row for every report and one for every validation; a resumed run appends. Raises
    `OSError` when the disk is full.
    """

    def __init__(self, directory: Path, max_steps: int, first_step: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self._progress = Progress(TextColumn("step"), *columns, disable=not os.isatty(2))
        self._task = self._progress.add_task("", total=max_steps, completed=first_step)
        path = directory / "log.csv"
        _forget_after(first_step, path)
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, COLUMNS, restval="", lineterminator="\n")
        if path.stat().st_size == 0:
            self._writer.writeheader()
        self._since = time.perf_counter()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()
        with contextlib.suppress(OSError):  # a full disk; the row that found it full says so
            self._file.close()

    def advance(self, step: int) -> None:
        """Show the number of steps."""
        self._progress.update(self._task, completed=step)

    def steps(self, report: Report) -> None:
        """Take a report of the steps since the last one."""
        now = time.perf_counter()
        speed = report.tokens / (now - self._since)
        self._since = now
        description = f"loss {report.loss:.3f}  lr {report.learning_rate:.2e}  {speed:,.0f} tokens/s"
        self._progress.update(self._task, total=report.last_step, completed=report.step, description=description)
        logger.info("step %d  %s  %.1f M tokens in all", report.step, description, report.all_tokens / 1e6)
        totals = {"hours": report.hours, "tokens": report.all_tokens}
        rates = {"learning_rate": report.learning_rate, "tokens_per_second": speed}
        self._row(report.step, **totals, loss=report.loss, **rates)

    def validation(self, step: int, loss: float) -> None:
        """Take nats per target token, when the validation is over: its time is none of a step's."""
        logger.info("step %d  validation loss %.4f", step, loss)
        self._row(step, validation_loss=loss)
        self._since = time.perf_counter()

    def _row(self, step: int, **values: float) -> None:
        try:
            self._writer.writerow({"step": step} | {name: f"{value:.9g}" for name, value in values.items()})
            self._file.flush()
        except OSError as error:
            problem = f"{self._file.name} cannot be written: {error}"
            raise OSError(f"{problem}; free some space, and run it again") from None


def _forget_after(step: int, path: Path) -> None:
    """Drop rows that will be written again: a run that died resumes before the last rows that it wrote."""
    if path.is_file():
        header, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True) or [""]
        kept = [row for row in rows if _is_whole(row) and int(row.split(",")[0]) <= step]
        path.write_text("".join([header, *kept]), encoding="utf-8")


def _is_whole(row: str) -> bool:
    """Return False for a row that a full disk or a power cut has cut off."""
    first, *others = row.split(",")
    return row.endswith("\n") and first.isdecimal() and len(others) == len(COLUMNS) - 1


def plot(log: Path, picture: Path) -> None:
    """Draw training loss, validation loss and learning rate of a `log.csv`.

    Raises `MissingExtraError` when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("no plot without matplotlib: pip install '.[train]'") from None
    with log.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    def series(name: str) -> tuple[list[int], list[float]]:
        present = [row for row in rows if row[name]]
        return [int(row["step"]) for row in present], [float(row[name]) for row in present]

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    losses = figure.subplots()
    losses.plot(*series("loss"), label="training loss", color="tab:blue")
    losses.plot(*series("validation_loss"), label="validation loss", color="tab:orange", marker=".")
    losses.set(xlabel="step", ylabel="nats a target token")
    losses.grid(alpha=0.3)
    rates = losses.twinx()
    rates.plot(*series("learning_rate"), label="learning rate", color="tab:gray", linestyle=":")
    rates.set(ylabel="learning rate")
    figure.legend(loc="outside upper center", ncols=3)
    figure.savefig(picture)
