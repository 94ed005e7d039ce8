"""The least number of files that may be open."""

import resource
from collections.abc import Iterator

import pytest

from service.server.descriptors import check_descriptors
from service.settings import UnusableSettingError


@pytest.fixture
def limit() -> Iterator[int]:
    """The limit of this process, which is put back."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(("engines", "least"), [(1, 100), (4, 112)])
def test_a_server_with_fewer_files_does_not_start(engines: int, least: int, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (least, limit))
    check_descriptors(engines)
    resource.setrlimit(resource.RLIMIT_NOFILE, (least - 1, limit))
    with pytest.raises(UnusableSettingError, match=f"only {least - 1} files may be open.* {least} at least"):
        check_descriptors(engines)
