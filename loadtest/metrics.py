"""The metrics of a server's `/metrics`."""

from prometheus_client.parser import text_string_to_metric_families


class Metrics:
    """One answer of `/metrics`, by name.

    Raises `ValueError` where it is no exposition of Prometheus'.
    """

    def __init__(self, exposition: str) -> None:
        self._samples = [each for family in text_string_to_metric_families(exposition) for each in family.samples]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with this full name and these labels; 0 without any."""
        return sum(each.value for each in self._samples if each.name == name and labels.items() <= each.labels.items())
