"""PDF to docx or Markdown in a process of its own: PDFium knows no threads, and hostile files may crash or hang it."""

import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from service.documents.paragraph import ReadOptions
from service.documents.reading import Answer, Refused, Written, decode_answer, encode
from service.documents.report import Report
from service.errors import ServiceError, TooLong
from service.process.interpreter import python_command
from service.process.resource_limits import limit_resource

_PROCESSOR_SECONDS: Final = 40
_MEMORY_BYTES: Final = 400_000_000


def convert_pdf(path: Path, output: Path, _: ReadOptions) -> Sequence[str]:
    """Convert a PDF to docx or Markdown, by the ending of the output. Returns warnings about what is missing.

    Raises `InvalidRequest` and `TooLong`.
    """
    command = python_command("-m", __name__, str(path), str(output))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        raise TooLong("file", f"reading the PDF takes more than {_PROCESSOR_SECONDS} seconds of a processor")
    if done.returncode:
        raise TooLong("file", f"reading the PDF takes more than {_MEMORY_BYTES // 10**6} MB of memory, or fails")
    answer = decode_answer(done.stdout)
    if isinstance(answer, Refused):
        raise answer.to_error()
    assert isinstance(answer, Written)
    return answer.report.warnings


def _convert(path: Path, output: Path) -> Answer:
    # Only here: the server's process does not load PDFium.
    from service.documents.pdf.reader import read_pdf
    from service.documents.pdf.writers import markdown_of, write_docx

    try:
        blocks, warnings = read_pdf(path.read_bytes())
    except ServiceError as error:
        return Refused.because_of(error)
    if output.suffix == ".md":
        output.write_text(markdown_of(blocks), encoding="utf-8")
    else:
        write_docx(blocks, output)
    return Written(Report(warnings=warnings))


def _main() -> None:
    limit_resource(resource.RLIMIT_CPU, _PROCESSOR_SECONDS)
    limit_resource(resource.RLIMIT_DATA, _MEMORY_BYTES)
    limit_resource(resource.RLIMIT_CORE, 0)
    sys.stdout.buffer.write(encode(_convert(Path(sys.argv[1]), Path(sys.argv[2]))))


if __name__ == "__main__":
    _main()
