"""The load-test tools' reader of `/metrics`."""

import pytest

from loadtest.metrics import Metrics

EXPOSITION = """\
# HELP requests_total Those.
# TYPE requests_total counter
requests_total{endpoint="/translate",outcome="ok"} 3.0
requests_total{endpoint="/translate",outcome="deadline"} 1.0
requests_total{endpoint="/v2/translate",outcome="ok"} 7.0
# HELP requests_total_of_another_kind Whose name begins alike.
# TYPE requests_total_of_another_kind gauge
requests_total_of_another_kind 100.0
"""


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, 11),
        ({"endpoint": "/translate"}, 4),
        ({"endpoint": "/translate", "outcome": "ok"}, 3),
        ({"endpoint": "/trans"}, 0),
        ({"model": "en-fr"}, 0),
    ],
)
def test_samples_of_a_name_and_some_labels_are_added_up(labels: dict[str, str], expected: int) -> None:
    assert Metrics(EXPOSITION).total("requests_total", **labels) == expected


def test_what_the_server_does_not_tell_is_nothing() -> None:
    assert Metrics(EXPOSITION).total("requests") == 0


def test_what_is_no_exposition_is_refused() -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the parser's own words
        Metrics("<html>502 Bad Gateway</html>")
